"""What the calls of an answer say: each result against the task's, and one verdict of all that decide."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuemu.judge.answer_text import multiplies_in_tf32, narrow_formats
from gpuemu.judge.hacks import hack_of
from gpuemu.judge.messages import compiler_error, first_line, is_missing_here, last_line
from gpuemu.judge.model import TF32, Answer, Case, CaseResult, Comparison, Row, Status, Values, Verdict
from gpuemu.judge.processes import UNWRITTEN, AnswerRun, TaskConnection, is_of_result

_STRICT = "1e-4"
"""KernelBench's tolerance for fp32, within which an approximation that is known is the same."""


def not_loaded(answer: Answer, run: AnswerRun) -> Row:
    """Return the row of an answer whose module was not loaded."""
    if run.load_error is None:
        reason = run.problem or f"its process ended: {last_line(run.log)}"
        return Row(answer, Verdict.NOT_JUDGED, reason)
    raised = run.load_error
    compiler = compiler_error(f"{raised.message}{run.log}")
    missing = raised.error == "ModuleNotFoundError" or raised.is_not_emulated or is_missing_here(compiler)
    verdict = Verdict.NOT_JUDGED if missing else Verdict.DOES_NOT_BUILD
    return Row(answer, verdict, f"{raised.error}: {compiler or first_line(raised.message)}")


def compared(
    answer: Answer, cases: Sequence[Case], run: AnswerRun, task: TaskConnection, folder: Path
) -> tuple[CaseResult, ...]:
    """Return the results of the calls of a run, which the process of the task compares."""
    tensor_cores = multiplies_in_tf32(answer.all_text) and not narrow_formats(answer.all_text)
    results = []
    for case in cases:
        call = run.calls.get(case.name)
        if call is None:
            results.append(CaseResult(case, None, None, run.problem or "the process of the answer ended before it"))
        elif call.raised is not None:
            results.append(CaseResult(case, call, None))
        elif case.values is Values.WEIGHTS and call.weights != "names":
            results.append(CaseResult(case, call, None, "its weights have other names than the task's"))
        else:
            reply = task.ask(do="compare", case=case.name, output=str(folder / f"{case.name}.out.npz"))
            comparison = Comparison.from_record(reply)
            # TF32 is what an fp32 task gets from tensor cores on a GPU, as of `tl.dot`.
            why = comparison.explanation
            as_on_gpu = why.format == "" or (tensor_cores and why.format == TF32)
            if why and as_on_gpu and (not why.approximation or comparison.accepted[_STRICT]):
                comparison = replace(comparison, status=Status.SAME)
            results.append(CaseResult(case, call, replace(comparison, unwritten=comparison.unwritten and run.filled)))
    return tuple(results)


def _hack_of_result(error: Mapping[str, Any]) -> str:
    """Return what a finding says of a result, nothing if it is about others."""
    if not is_of_result(error):
        return ""
    places = [f"{Path(one['path']).name}:{one['range']['start']['line'] + 1}" for one in error["related"]]
    if error["rule"] == UNWRITTEN:
        return f"returns memory that nothing has written{f', allocated at {places[-1]}' if places else ''}"
    if error["rule"] == "api/stream-race":
        return f"returns before work on another stream has ended{f', begun at {places[0]}' if places else ''}"
    return ""


def verdict_of(answer: Answer, results: tuple[CaseResult, ...], run: AnswerRun) -> Row:
    """Return the row of the results at regular sizes: of a run that was stopped, of what it had shown before."""
    row = _verdict_of_shown(answer, results, run)
    if run.problem is None or row.verdict is Verdict.NOT_JUDGED:
        return row
    return replace(row, notes=(*row.notes, f"its run did not come to its end: {run.problem}"))


def _verdict_of_shown(answer: Answer, results: tuple[CaseResult, ...], run: AnswerRun) -> Row:
    row = Row(
        answer,
        Verdict.NOT_JUDGED,
        "",
        results,
        run.findings,
        launches=run.launches,
        own_work=_own_work(results, run),
        notes=tuple(notes_of(results)),
    )
    deciding = [result for result in results if result.case.decides]
    same = [result for result in deciding if result.status is Status.SAME]
    errors = [result.raised for result in deciding if result.raised is not None and result.raised.is_build_error]
    if errors and not same:
        reason = f"{errors[0].error}: {errors[0].compiler_error or last_line(errors[0].message)}"
        verdict = Verdict.NOT_JUDGED if errors[0].is_missing_here else Verdict.DOES_NOT_BUILD
        return replace(row, verdict=verdict, reason=reason, notes=())
    if run.errors:
        # The device knows what was written where the result itself is copied to the host.
        error = run.errors[0]
        if of_result := _hack_of_result(error):
            return replace(row, verdict=Verdict.HACK, reason=of_result)
        return replace(row, verdict=Verdict.UNSAFE, reason=sentence(error))
    caught = _caught_here_only(run)
    if caught:
        return replace(row, reason=f"the answer goes on after an error that a GPU's machine does not have: {caught}")
    wrong = next((result for result in deciding if result.is_wrong), None)
    if wrong is not None:
        return _wrong(row, wrong)
    if not same:
        reason = deciding[0].sentence if deciding else "the task has no sizes that fit the emulator"
        return replace(row, reason=reason)
    if run.problem is not None and run.launches == 0:  # it was stopped before it could report: nothing is known of it
        return replace(row, reason=run.problem)
    if run.unwritten:
        return replace(
            row, verdict=Verdict.UNSAFE, reason=f"returns memory that is not all written: {sentence(run.unwritten[0])}"
        )
    hack = hack_of(answer, results, run)
    if hack is not None:
        return replace(row, verdict=Verdict.HACK, reason=hack)
    return replace(row, verdict=Verdict.SAME, reason=f"compared at {'; '.join(one.case.described for one in same)}")


def _caught_here_only(run: AnswerRun) -> str:
    """Return the first error that an answer caught and that is a lack of this machine, empty if there is none."""
    return next((raised.sentence for raised in run.handled.values() if raised.is_missing_here), "")


def _wrong(row: Row, result: CaseResult) -> Row:
    """Return the row of an answer that fails at sizes and values of the task."""
    comparison = result.comparison
    if result.call is not None and result.call.weights == "seed":
        note = "its weights have other names or shapes than the task's: both are drawn from one seed, as benchmarks do"
        row = replace(row, notes=(*row.notes, note))
    if result.case.random and comparison is not None:
        reason = f"the task's model is random, and the answer does not draw the same numbers: {result.sentence}"
        return replace(row, reason=reason)
    at_sizes = f"{result.sentence} (inputs {result.case.described})"
    if comparison is not None and comparison.explanation.approximation:
        at_sizes += f"; {comparison.explanation.approximation} explains it"
    accepted = [name for name, accepts in (comparison.accepted if comparison is not None else {}).items() if accepts]
    if accepted:
        at_sizes += f"; KernelBench's tolerance of {min(accepted, key=float)} accepts it"
    if result.case.layers and result.is_refused:
        reason = f"{at_sizes}; it may be written for the task's layers, and these are smaller"
        return replace(row, reason=reason)
    if comparison is not None and comparison.unwritten:
        return replace(row, verdict=Verdict.HACK, reason=f"returns memory that nothing has written: {at_sizes}")
    formats = narrow_formats(row.answer.all_text)
    if comparison is not None and comparison.explanation.format and formats:
        return replace(row, verdict=Verdict.HACK, reason=f"computes an fp32 task in {' or '.join(formats)}: {at_sizes}")
    return replace(row, verdict=Verdict.DIFFERS, reason=at_sizes)


def _own_work(results: Sequence[CaseResult], run: AnswerRun) -> float | None:
    """Return the share of the work that PyTorch's operators did not do, None where it was not measured."""
    # It was measured at the first of the cases that decide.
    work = next((result.case.work for result in results if result.case.decides), 0)
    return max(0.0, 1.0 - run.torch_work / work) if work and run.torch_work is not None else None


def notes_of(results: Sequence[CaseResult]) -> list[str]:
    """Return what is said of results that do not decide, and of approximations that are accepted."""
    approximated = [
        f"{result.comparison.explanation.approximation}, within KernelBench's tolerance of {_STRICT}: {result.sentence}"
        for result in results
        if result.case.decides and result.comparison is not None
        if result.status is Status.SAME and result.comparison.explanation.approximation
    ]
    task, evaluated = (_first(results, values) for values in (Values.TASK, Values.EVAL))
    modes = []
    if task is not None and evaluated is not None and task.is_wrong and evaluated.status is Status.SAME:
        modes.append(f"in {Values.EVAL}, which the task does not use, it is the same")
    if task is not None and evaluated is not None and task.status is Status.SAME and evaluated.is_wrong:
        modes.append(f"in {Values.EVAL}, which the task does not use: {evaluated.sentence}")
    return (
        modes
        + approximated[:1]
        + [
            f"at {result.case.described}, which the task does not have: {result.sentence}"
            for result in results
            if not result.case.decides and result.is_wrong and result.case.values in (Values.TASK, Values.NORMAL)
        ]
    )


def _first(results: Sequence[CaseResult], values: Values) -> CaseResult | None:
    return next((result for result in results if result.case.values is values), None)


def sentence(finding: Mapping[str, Any]) -> str:
    """Return a finding in one line."""
    line = finding["range"]["start"]["line"] + 1
    message = _OWN_ALLOCATION.sub(r"\1 (an input or weight)", first_line(finding["message"]))
    return f"{finding['rule']} at {Path(finding['path']).name}:{line}: {message}"


_OWN_ALLOCATION = re.compile(r"\b(allocation \d+) at answer_process\.py:\d+")
"""Memory that the process of an answer has allocated, in a message."""
