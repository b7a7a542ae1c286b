"""One answer to a row: its cases are made, it is run, its results are compared, and one verdict follows.

Sizes and values that the task has decide. What happens at others (sizes that are not multiples of what divides
the task's, values that its inputs do not have) is a note: a benchmark would accept the answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuemu.judge.answer_text import COMMON_SIZE, named_sizes, untaken_branches, uses_block_pointers
from gpuemu.judge.earlier_torch import written_for_this_torch
from gpuemu.judge.messages import last_line
from gpuemu.judge.model import ALIGNED, LONG, SHORT, USUAL, Answer, Case, Row, Status, Values, Verdict
from gpuemu.judge.processes import AnswerRun, TaskConnection, TaskFailedError, run_answer
from gpuemu.judge.verdicts import compared, not_loaded, notes_of, sentence, verdict_of
from gpuemu_lsp.engine.runtime.processes.supervised import temporary_folder

_FAILS = (Verdict.UNSAFE, Verdict.DIFFERS)

_INT_RANGE = 1 << 31
"""Elements of a tensor from which on 32 bits cannot index it."""
_BLOCK_POINTERS = "its block pointers, which Triton has no longer since 3.9, are computed as in earlier versions"
_OWN = "own"
"""Name of the inputs at the task's own sizes."""

_OF_SIZES = frozenset({"memory/out-of-bounds", "memory/uninitialized-read", "memory/misaligned"})
"""Rules of findings that a kernel may have at sizes that it is not written for."""


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
    if uses_block_pointers(answer.all_text):
        row = replace(row, notes=(*row.notes, _BLOCK_POINTERS))
    reason = row.reason
    if row.answer.path != answer.path and answer.path.suffix == ".py":  # whose lines the written module has
        reason = reason.replace(f" at {row.answer.path.name}:", f" at {answer.path.name}:")
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
    answer = written_for_this_torch(answer, folder)
    reply = task.ask(do="cases", path=str(answer.task), model=answer.task_model, holds_answer=both)
    cases = tuple(map(Case.from_record, reply["cases"]))
    own_sizes = frozenset(size for shape in reply["own_shapes"] for size in (*shape, math.prod(shape)))
    aligned = [case for case in cases if case.label == ALIGNED]
    long = [case for case in cases if case.label in (SHORT, LONG)]
    regular = [case for case in cases if case.regular and case not in aligned and case not in long]
    tried = [case for case in regular if case.values in (Values.TASK, Values.AGAIN)]
    others = [case for case in cases if not case.regular]
    untried = [case for case in regular if case not in tried]
    together = run = run_answer(answer, [*tried, *untried, *others], folder, seconds)
    if not run.loaded:
        return not_loaded(answer, run)
    if (run.errors or run.unwritten or run.problem) and not _ended_before(run, tried):
        # Errors at sizes and values that the task does not have do not decide.
        run = run_answer(answer, tried, folder, seconds)
    results = compared(answer, tried, run, task, folder)
    if not together.errors:  # after which calls of the same process fail
        results += compared(answer, untried, together, task, folder)
    row = verdict_of(answer, results, run)
    row = _at_nearer_sizes(row, tried, aligned, task, folder, seconds)
    if _may_be_sizes(row) and not any(result.is_wrong and result.case.own for result in row.results):
        row = _at_named_sizes(row, reply, task, folder, seconds)
    if row.verdict is Verdict.SAME and long:
        row = _with_long_sequences(row, long, task, folder, seconds)
    weak = next((case.weak for case in regular if case.weak), "")
    if weak:
        row = replace(row, notes=(*row.notes, f"the task can hardly tell at these sizes: {weak}"))
    if row.verdict is not Verdict.SAME:
        return row
    results = () if together.errors else compared(answer, others, together, task, folder)
    unsafe = [
        f"{sentence(finding)}, at sizes or values that the task does not have"
        for finding in (*together.errors, *together.unwritten)
    ]
    row = replace(
        row,
        results=row.results + results,
        findings=together.findings,
        notes=(*row.notes, *notes_of(results), *unsafe),
    )
    row = _with_branches(row, answer, run.lines | together.lines, own_sizes)
    return _with_own_indices(row, reply["own_extents"], task, folder, seconds)


def _ended_before(run: AnswerRun, cases: Sequence[Case]) -> bool:
    """Return whether a run was stopped before it had called an answer with all of its first cases, and so no others."""
    return run.problem is not None and any(case.name not in run.calls for case in cases)


def _at_nearer_sizes(
    row: Row, tried: Sequence[Case], aligned: Sequence[Case], task: TaskConnection, folder: Path, seconds: float
) -> Row:
    """Return the row of an answer that fails at sizes that are more like the task's, and of others their own."""
    if row.verdict in _FAILS and _is_right_when_small(row, tried, folder, seconds):
        aligned = []  # what divides the small sizes divides the larger ones: tiles are not the reason
    for where, confirming in _nearer(tried, aligned).items():
        refused = any(result.is_wrong and result.case.layers for result in row.results)
        if row.verdict in _FAILS or (row.verdict is Verdict.NOT_JUDGED and refused):
            run = run_answer(row.answer, confirming, folder, seconds)
            results = compared(row.answer, confirming, run, task, folder)
            row = _confirmed(row, verdict_of(row.answer, results, run), where)
    return row


def _is_right_when_small(row: Row, tried: Sequence[Case], folder: Path, seconds: float) -> bool:
    """Return whether an answer that fails is right at the small sizes, and only larger ones show what is wrong."""
    if row.verdict is Verdict.UNSAFE:  # findings do not say at which sizes
        run = run_answer(row.answer, [case for case in tried if case.label == USUAL], folder, seconds)
        return not run.errors and not run.unwritten and run.problem is None
    return not any(result.is_wrong for result in row.results if result.case.decides and result.case.label == USUAL)


def _with_long_sequences(row: Row, cases: Sequence[Case], task: TaskConnection, folder: Path, seconds: float) -> Row:
    """Return the row of an answer that is right at short sequences, or that at long ones if these are the reason."""
    run = run_answer(row.answer, cases, folder, seconds)
    results = compared(row.answer, cases, run, task, folder)
    long = verdict_of(row.answer, results, run)
    if long.verdict is Verdict.NOT_JUDGED:
        return replace(row, notes=(*row.notes, f"at {cases[-1].described}: {long.reason}"))
    if long.verdict is not Verdict.SAME and (control := [case for case in cases if case.label == SHORT]):
        run = run_answer(row.answer, control, folder, seconds)
        short = verdict_of(row.answer, compared(row.answer, control, run, task, folder), run)
        if short.verdict is not Verdict.SAME:  # smaller layers than the task's are the reason
            return replace(row, notes=(*row.notes, f"at smaller layers than the task's: {short.reason}"))
    results = row.results + results
    if long.verdict is Verdict.SAME:
        same = [result.case.described for result in results if result.case.decides and result.status is Status.SAME]
        return replace(row, results=results, reason=f"compared at {'; '.join(same)}")
    return replace(long, results=results)


def _with_own_indices(row: Row, extents: Sequence[int], task: TaskConnection, folder: Path, seconds: float) -> Row:
    """Return the row of an answer that is right, or that of a 32-bit index that overflows at the task's own sizes."""
    if row.verdict is not Verdict.SAME or max(extents, default=0) < _INT_RANGE:
        return row
    task.ask(do="own inputs", name=_OWN)
    run = run_answer(row.answer, [], folder, seconds, follow=_OWN)
    overflow = next((finding for finding in run.findings if finding["rule"] == "memory/index-overflow"), None)
    if overflow is not None:
        reason = f"{sentence(overflow)}, at the task's own sizes"
        return replace(row, verdict=Verdict.UNSAFE, reason=reason, findings=(overflow,))
    if run.unfollowed == "":
        return replace(row, notes=(*row.notes, "at the task's own sizes no index of the threads followed overflows"))
    reason = (
        "an index of 32 bits may overflow at the task's own sizes, and what is launched there is not known: "
        f"{run.unfollowed or run.problem or last_line(run.log)}"
    )
    return replace(row, verdict=Verdict.NOT_JUDGED, reason=reason)


def _may_be_sizes(row: Row) -> bool:
    """Return whether a kernel that is written for some sizes may fail so at others: it does not race."""
    if row.verdict is Verdict.UNSAFE:
        return any(finding["severity"] == "error" and finding["rule"] in _OF_SIZES for finding in row.findings)
    refused = row.verdict is Verdict.NOT_JUDGED and any(result.is_refused for result in row.results)
    return row.verdict is Verdict.DIFFERS or refused


def _at_named_sizes(row: Row, sizes: Mapping[str, Any], task: TaskConnection, folder: Path, seconds: float) -> Row:
    """Return the row at sizes of which those that the answer's text has are the task's own."""
    answer = row.answer
    own, extents = frozenset(sizes["replaced"]), frozenset(sizes["own_extents"])
    named = frozenset[int]().union(*(named_sizes(text, answer.model, own, extents) for text in answer.file_texts))
    if not named:
        return row
    cases = tuple(map(Case.from_record, task.ask(do="cases with own sizes", sizes=sorted(named))["cases"]))
    listed = ", ".join(map(str, sorted(named)))
    if cases:
        run = run_answer(answer, cases, folder, seconds)
        nearer = verdict_of(answer, compared(answer, cases, run, task, folder), run)
        if nearer.verdict is not Verdict.NOT_JUDGED:
            return _confirmed(row, nearer, f"at other sizes than {listed}, which its text has")
    if max(named) <= COMMON_SIZE and not any(result.is_refused for result in row.results):
        return row
    reason = f"{row.reason}; its text has the sizes {listed} of the task, at which it does not fit the emulator"
    return replace(row, verdict=Verdict.NOT_JUDGED, reason=reason)


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
