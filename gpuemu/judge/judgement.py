"""One answer to a row: its cases are made, it is run, its results are compared, and one verdict follows.

Sizes and values that the task has decide. What happens at others (sizes that are not multiples of what divides
the task's, values that its inputs do not have) is a note: a benchmark would accept the answer.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuemu.judge.answer_text import multiplies_in_tf32, names_a_size, narrow_formats, untaken_branches
from gpuemu.judge.hacks import hack_of
from gpuemu.judge.messages import compiler_error, first_line, is_missing_here, last_line
from gpuemu.judge.model import (
    ALIGNED,
    LONG,
    SHORT,
    TF32,
    USUAL,
    Answer,
    Case,
    CaseResult,
    Comparison,
    Row,
    Status,
    Values,
    Verdict,
)
from gpuemu.judge.processes import AnswerRun, TaskConnection, TaskFailedError, run_answer
from gpuemu_lsp.engine.runtime.processes.supervised import temporary_folder

_STRICT = "1e-4"
"""KernelBench's tolerance for fp32, within which an approximation that is known is the same."""

_REFUSALS = frozenset({"RuntimeError", "ValueError", "AssertionError", "NotImplementedError"})
"""Errors by which functions refuse sizes."""


def judge(answer: Answer, seconds: float) -> Row:
    """Return the verdict on an answer; its process may run for this long for each group of sizes."""
    if answer.problem:
        return Row(answer, Verdict.NOT_JUDGED, answer.problem)
    started = time.monotonic()
    with temporary_folder("gpuemu-judge-") as name:
        row = _of_settings(answer.in_files(Path(name)), Path(name), seconds)
    findings = tuple(
        {**finding, "path": str(answer.path)} if _is_written(finding, name) else finding for finding in row.findings
    )
    reason = row.reason
    if answer.texts is not None and answer.path.suffix == ".py":  # whose lines the written module has
        reason = reason.replace(" at answer.py:", f" at {answer.path.name}:")
    return replace(row, answer=answer, reason=reason, findings=findings, seconds=time.monotonic() - started)


def _of_settings(answers: Sequence[Answer], folder: Path, seconds: float) -> Row:
    """Return the row of an answer with each setting of its task: that of one that fails, or all together."""
    rows: list[Row] = []
    for answer in answers:
        with TaskConnection(folder) as task:
            try:
                row = _judged(answer, task, folder, seconds)
            except TaskFailedError as error:
                row = Row(answer, Verdict.NOT_JUDGED, f"the task failed: {error}")
        rows.append(row)
        if row.verdict not in (Verdict.SAME, Verdict.NOT_JUDGED):
            break
    # A setting that was not judged does not hide another that fails.
    last = next((row for row in reversed(rows) if row.verdict is not Verdict.SAME), rows[-1])
    return replace(
        last,
        reason="; ".join(row.reason for row in rows) if last.verdict is Verdict.SAME else last.reason,
        results=tuple(result for row in rows for result in row.results),
        notes=tuple(dict.fromkeys(note for row in rows for note in row.notes)),
    )


def _is_written(finding: Mapping[str, Any], folder: str) -> bool:
    """Return whether a finding is in a module that was written for an answer, whose lines are those of its file."""
    path: str = finding["path"]
    return path.startswith(folder) and path.endswith("/answer.py")


def _judged(answer: Answer, task: TaskConnection, folder: Path, seconds: float) -> Row:
    both = answer.task == answer.path
    reply = task.ask(do="cases", path=str(answer.task), model=answer.task_model, holds_answer=both)
    cases = tuple(map(Case.from_record, reply["cases"]))
    own_sizes = frozenset(size for shape in reply["own_shapes"] for size in (*shape, math.prod(shape)))
    aligned = [case for case in cases if case.label == ALIGNED]
    long = [case for case in cases if case.label in (SHORT, LONG)]
    regular = [case for case in cases if case.regular and case not in aligned and case not in long]
    tried = [case for case in regular if case.values in (Values.TASK, Values.AGAIN)]
    others = [case for case in cases if not case.regular]
    together = run = run_answer(answer, [*regular, *others], folder, seconds)
    if not run.loaded:
        return _not_loaded(answer, run)
    if run.errors or run.problem:
        # Errors at sizes and values that the task does not have do not decide.
        run = run_answer(answer, tried, folder, seconds)
    results = _results(answer, tried, run, task, folder)
    if not together.errors:  # after which calls of the same process fail
        results += _results(answer, [case for case in regular if case not in tried], together, task, folder)
    row = _verdict(answer, results, run)
    if row.verdict in (Verdict.UNSAFE, Verdict.DIFFERS) and _is_right_when_small(row, tried, folder, seconds):
        aligned = []  # what divides the small sizes divides the larger ones: tiles are not the reason
    for where, confirming in _nearer(tried, aligned).items():
        may_be_layers = any(result.is_wrong and result.case.layers for result in row.results)
        if row.verdict in (Verdict.UNSAFE, Verdict.DIFFERS) or may_be_layers:
            run = run_answer(answer, confirming, folder, seconds)
            results = _results(answer, confirming, run, task, folder)
            row = _confirmed(row, _verdict(answer, results, run), where)
    if row.verdict is Verdict.SAME and long:
        row = _with_long_sequences(row, long, task, folder, seconds)
    weak = next((case.weak for case in regular if case.weak), "")
    if weak:
        row = replace(row, notes=(*row.notes, f"the task can hardly tell at these sizes: {weak}"))
    if row.verdict is not Verdict.SAME:
        return row
    results = () if together.errors else _results(answer, others, together, task, folder)
    unsafe = [f"{sentence(finding)}, at sizes or values that the task does not have" for finding in together.errors]
    row = replace(
        row,
        results=row.results + results,
        findings=together.findings,
        notes=(*row.notes, *_notes(results), *unsafe),
    )
    return _with_branches(row, answer, run.lines | together.lines, own_sizes)


def _is_right_when_small(row: Row, tried: Sequence[Case], folder: Path, seconds: float) -> bool:
    """Return whether an answer that fails is right at the small sizes, and only larger ones show what is wrong."""
    if row.verdict is Verdict.UNSAFE:  # findings do not say at which sizes
        run = run_answer(row.answer, [case for case in tried if case.label == USUAL], folder, seconds)
        return not run.errors and run.problem is None
    return not any(result.is_wrong for result in row.results if result.case.decides and result.case.label == USUAL)


def _with_long_sequences(row: Row, cases: Sequence[Case], task: TaskConnection, folder: Path, seconds: float) -> Row:
    """Return the row of an answer that is right at short sequences, or that at long ones if these are the reason."""
    run = run_answer(row.answer, cases, folder, seconds)
    results = _results(row.answer, cases, run, task, folder)
    long = _verdict(row.answer, results, run)
    if long.verdict is Verdict.NOT_JUDGED:
        return replace(row, notes=(*row.notes, f"at {cases[-1].described}: {long.reason}"))
    if long.verdict is not Verdict.SAME and (control := [case for case in cases if case.label == SHORT]):
        run = run_answer(row.answer, control, folder, seconds)
        short = _verdict(row.answer, _results(row.answer, control, run, task, folder), run)
        if short.verdict is not Verdict.SAME:  # smaller layers than the task's are the reason
            return replace(row, notes=(*row.notes, f"at smaller layers than the task's: {short.reason}"))
    results = row.results + results
    if long.verdict is Verdict.SAME:
        same = [result.case.described for result in results if result.case.decides and result.status is Status.SAME]
        return replace(row, results=results, reason=f"compared at {'; '.join(same)}")
    return replace(long, results=results)


def _nearer(tried: Sequence[Case], aligned: Sequence[Case]) -> dict[str, list[Case]]:
    """Return cases at sizes that are more like the task's in one respect, by what others are like."""
    # A kernel without masks is right where its tiles divide the sizes, as they may divide the task's own; one that is
    # written for the task's layers is right at these.
    own_layers = [case for case in tried if case.decides and not case.layers]
    smaller_layers = any(case.layers for case in tried)
    groups = {
        "at sizes that the tiles of kernels do not divide": list(aligned),
        "at smaller layers than the task's": own_layers if smaller_layers else [],
    }
    return {where: cases for where, cases in groups.items() if cases}


def _confirmed(row: Row, nearer: Row, where: str) -> Row:
    """Return the row at sizes that are more like the task's, if it says more than one that fails at others."""
    if nearer.verdict is Verdict.NOT_JUDGED:
        return row
    results = row.results + nearer.results
    if nearer.verdict is Verdict.SAME:
        return replace(nearer, results=results, notes=(f"{where}: {row.reason}",))
    notes = (*row.notes, *nearer.notes)
    if row.verdict is Verdict.UNSAFE and nearer.verdict is Verdict.DIFFERS and not _is_out_of_bounds(row):
        # A race may need more blocks than these sizes have.
        return replace(row, results=results, notes=tuple(dict.fromkeys((*notes, nearer.reason))))
    if row.verdict is not nearer.verdict:
        notes = (*notes, f"{where}: {row.reason}")
    return replace(nearer, results=results, notes=tuple(dict.fromkeys(notes)))


def _is_out_of_bounds(row: Row) -> bool:
    """Return whether a row is about an access that sizes which no tile divides lead out of bounds."""
    errors = (finding["rule"] for finding in row.findings if finding["severity"] == "error")
    return next(errors, "") == "memory/out-of-bounds"


def _with_branches(row: Row, answer: Answer, executed: frozenset[int], own_sizes: frozenset[int]) -> Row:
    """Note the branches that no call has taken; a row does not say ``same`` if the task's own sizes take one."""
    checked = {size for one in row.results for shape in one.case.shapes for size in (*shape, math.prod(shape))}
    for branch in untaken_branches(answer.text, executed):
        text = f"`{branch.condition}` in line {branch.line} was never {str(branch.value).lower()}"
        if branch.distinguishes(checked, own_sizes):
            reason = f"{text} at the sizes that fit the emulator, and may be at the task's own"
            return replace(row, verdict=Verdict.NOT_JUDGED, reason=reason)
        row = replace(row, notes=(*row.notes, text))
    return row


def _not_loaded(answer: Answer, run: AnswerRun) -> Row:
    if run.load_error is None:
        reason = run.problem or f"its process ended: {last_line(run.log)}"
        return Row(answer, Verdict.NOT_JUDGED, reason)
    raised = run.load_error
    compiler = compiler_error(f"{raised.message}{run.log}")
    missing = raised.error == "ModuleNotFoundError" or raised.is_not_emulated or is_missing_here(compiler)
    verdict = Verdict.NOT_JUDGED if missing else Verdict.DOES_NOT_BUILD
    return Row(answer, verdict, ": ".join(filter(None, (raised.error, first_line(raised.message), compiler))))


def _results(
    answer: Answer, cases: Sequence[Case], run: AnswerRun, task: TaskConnection, folder: Path
) -> tuple[CaseResult, ...]:
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
    """Return what a finding says of a result, which this package copies to the host; nothing if it is about others."""
    if Path(error["path"]).resolve().parent != Path(__file__).resolve().parent:
        return ""
    places = [f"{Path(one['path']).name}:{one['range']['start']['line'] + 1}" for one in error["related"]]
    if error["rule"] == "api/uninitialized-copy":
        return f"returns memory that nothing has written{f', allocated at {places[-1]}' if places else ''}"
    if error["rule"] == "api/stream-race":
        return f"returns before work on another stream has ended{f', begun at {places[0]}' if places else ''}"
    return ""


def _verdict(answer: Answer, results: tuple[CaseResult, ...], run: AnswerRun) -> Row:
    """Return the row of the results at regular sizes."""
    row = Row(
        answer,
        Verdict.NOT_JUDGED,
        "",
        results,
        run.findings,
        launches=run.launches,
        own_work=_own_work(results, run),
        notes=tuple(_notes(results)),
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
    if result.case.layers and _names_a_size(row.answer, result.case.replaced):
        reason = f"{at_sizes}; its text names sizes of the task's layers, and these are smaller"
        return replace(row, reason=reason)
    if result.case.layers and result.raised is not None and result.raised.error in _REFUSALS:
        reason = f"{at_sizes}; it may be written for the task's layers, and these are smaller"
        return replace(row, reason=reason)
    if comparison is not None and comparison.unwritten:
        return replace(row, verdict=Verdict.HACK, reason=f"returns memory that nothing has written: {at_sizes}")
    formats = narrow_formats(row.answer.all_text)
    if comparison is not None and comparison.explanation.format and formats:
        return replace(row, verdict=Verdict.HACK, reason=f"computes an fp32 task in {' or '.join(formats)}: {at_sizes}")
    return replace(row, verdict=Verdict.DIFFERS, reason=at_sizes)


def _names_a_size(answer: Answer, sizes: Sequence[int]) -> bool:
    texts = [answer.text, *(source.read_text(encoding="utf-8", errors="replace") for source in answer.sources)]
    return any(names_a_size(text, answer.model, sizes) for text in texts)


def _own_work(results: Sequence[CaseResult], run: AnswerRun) -> float | None:
    """Return the share of the work that PyTorch's operators did not do, None where it was not measured."""
    # It was measured at the first of the cases that decide.
    work = next((result.case.work for result in results if result.case.decides), 0)
    return max(0.0, 1.0 - run.torch_work / work) if work and run.torch_work is not None else None


def _notes(results: Sequence[CaseResult]) -> list[str]:
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
