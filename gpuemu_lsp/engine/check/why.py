"""Why a stored case fails: it is recorded on the code that it fails on, and the recording is asked.

Unoptimised code has variables. A case that does not fail there in the same way is recorded on the optimised code, which
has lines and memory, but no names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.check.launch_recorder import Recorder
from gpuemu_lsp.engine.check.model import Stage, Why
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import unoptimized_run
from gpuemu_lsp.engine.check.questions import Question, ask
from gpuemu_lsp.engine.check.replay import HANG_STEPS, ReopenedCase, reopen
from gpuemu_lsp.engine.check.replay_store import ReplayStore
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.debug.copies import unfollowed_writers
from gpuemu_lsp.engine.debug.explain import ChainQuestion, RecordedBlock
from gpuemu_lsp.engine.debug.explanation import Explanation
from gpuemu_lsp.engine.execution import Request
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.store import Failure
from gpuemu_lsp.engine.subjects.request import CheckRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.emulator import Emulator


@dataclass(frozen=True, slots=True)
class AskedCase:
    """A stored case that was recorded: what is asked about it, and what records further blocks of its launch.

    ``finding`` is what it shows now. Without a ``recorder`` there is no recording, for the reason in the ``answer``.
    ``further`` are the other errors and warnings of its run. ``ask_again`` returns the questions, of a recording that
    is made if the recorder has another one meanwhile.
    """

    answer: Why
    recorder: Recorder | None = None
    questions: tuple[ChainQuestion, ...] = ()
    notes: tuple[str, ...] = ()
    further: tuple[Question, ...] = ()
    ask_again: Callable[[], tuple[ChainQuestion, ...]] = tuple


def why(request: CheckRequest, failure: Failure, case_id: str) -> Iterator[Stage | Why]:
    """Explain the stored case ``case_id`` of one kernel; yield stages, and its :class:`Why` last."""
    for event in asked_case(request, failure, case_id):
        yield _explained(event) if isinstance(event, AskedCase) else event


def asked_case(request: CheckRequest, failure: Failure, case_id: str) -> Iterator[Stage | AskedCase]:
    """Record a case and ask about its finding; yield stages, and the case last.

    A failure of no rule is a case that may be clean; whatever error it shows is its finding.
    """
    name = request.spec.name
    yield Stage(name, "compile")
    opened = reopen(request, failure)
    answer = Why(failure.kernel, failure.dtype, case_id)
    if opened.run is None or opened.case is None:
        problem = next((one.message for one in opened.findings), "the case cannot be run")
        yield AskedCase(replace(answer, problem=problem))
        return
    yield Stage(name, "execute")
    shown = _stored_findings(opened.run, opened.case, failure, case_id)
    if not shown and not failure.rule:
        yield Stage(name, "record")
        yield _asked_nothing(answer, Recorder(_unoptimized(opened) or opened.run, opened.case))
        return
    if not shown:
        problem = f"it no longer fails with {failure.rule}"
        yield AskedCase(replace(answer, verdict="fixed", problem=problem))
        return
    answer, failure = replace(answer, verdict="still fails", finding=shown[0]), replace(failure, rule=shown[0].rule)
    yield Stage(name, "record")
    run, (first, *others) = _run_with_names(opened, failure, case_id) or (opened.run, shown)
    asked = _asked(answer, Question(first, opened.case, run))
    yield replace(asked, further=tuple(Question(finding, opened.case, run) for finding in others))


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """The launch that is recorded of a stored case, and the block of its finding."""

    emulator: Emulator
    request: Request
    block: int


def recorded_case(request: CheckRequest, failure: Failure) -> RecordedFailure | None:
    """Return the launch that :func:`why` records first, None if the case cannot be recorded."""
    opened = reopen(request, failure)
    if opened.run is None or opened.case is None:
        return None
    shown = _stored_findings(opened.run, opened.case, failure, failure.case)
    if not shown:
        return None
    run, (finding, *_) = _run_with_names(opened, failure, failure.case) or (opened.run, shown)
    emulator: Emulator = run.runner.executor  # type: ignore[assignment]
    return RecordedFailure(emulator, run.runner.complete(opened.case), Question(finding, opened.case, run).block())


def _stored_findings(run: PlanRun, case: Case, failure: Failure, case_id: str) -> list[Finding]:
    """Return what :func:`_findings` does; a launch that hangs is given fewer steps from now on."""
    if failure.rule == "sync/hang":
        run.runner.launch = replace(run.runner.launch, max_steps=HANG_STEPS)
    return _findings(run, case, failure, case_id)


def _findings(run: PlanRun, case: Case, failure: Failure, case_id: str) -> list[Finding]:
    """Return the stored error, then the other errors and warnings of a run; nothing if the run does not show it."""
    shown = ReopenedCase((), run, case).examine(case, case_id)
    errors = (finding for finding in shown if finding.severity is Severity.ERROR)
    error = next((finding for finding in errors if failure.rule in ("", finding.rule)), None)
    if error is None:
        return []
    serious = (Severity.ERROR, Severity.WARNING)
    others = (finding for finding in shown if finding is not error and finding.severity in serious)
    return [error, *others]


_MOST_WINDOWS = 16
"""Parts of a long block that are recorded to find the moment of a finding, the last ones first."""

_NAMES_SECONDS = 10.0
"""Longest translation of unoptimised code, in seconds: calls into the headers of CUDA's pipelines become 9,000
instructions. Beyond it, lines and registers of the optimised code are what can be shown in time."""


def _run_with_names(opened: ReopenedCase, failure: Failure, case_id: str) -> tuple[PlanRun, list[Finding]] | None:
    """Return a run of unoptimised code and its findings; None if the case does not fail in the same way."""
    run = _unoptimized(opened)
    if run is None or opened.case is None:
        return None
    launch = run.runner.launch
    run.runner.launch = replace(launch, translate_seconds=min(_NAMES_SECONDS, launch.translate_seconds))
    shown = _findings(run, opened.case, failure, case_id)
    # Its recording version takes longer, and is worth it now.
    run.runner.launch = replace(run.runner.launch, translate_seconds=launch.translate_seconds)
    return (run, shown) if shown else None


def _unoptimized(opened: ReopenedCase) -> PlanRun | None:
    run, prepared = opened.run, opened.prepared
    if run is None or prepared is None or prepared.unoptimized is None:
        return None
    if run.runner.launch.artifact.debug_sections:
        return run
    try:
        artifact = prepared.without_optimization().artifact
    except ToolchainError:
        return None
    if artifact is None:
        return None
    # Judged as the optimised code is: by its numbers, too.
    return replace(unoptimized_run(run, prepared, artifact), store=ReplayStore(run.plan, run.context.hints, None))


def _asked(answer: Why, question: Question) -> AskedCase:
    """Return what is asked about a finding, or with the problem that its launch is not recorded."""
    if question.run.runner.executor.name != "emulator":
        return AskedCase(replace(answer, problem="only launches in the emulator can be recorded"))
    recorder = Recorder(question.run, question.case, question.finding)
    questions, notes = ask(question, recorder.block)
    for _ in range(_MOST_WINDOWS):
        if questions or recorder.latest is None or recorder.before(recorder.latest.recording.block) is None:
            break
        questions, notes = ask(question, recorder.block)
    block = recorder.latest
    if block is None:
        return AskedCase(replace(answer, problem=f"its launch was not recorded: {recorder.problem}"))
    if not questions and not notes:
        notes = ("the finding names no thread or element that could be followed",)
    again = partial(_questions, question, recorder)
    return AskedCase(answer, recorder, questions, (*notes, *_missing(block)), ask_again=again)


def _questions(question: Question, recorder: Recorder) -> tuple[ChainQuestion, ...]:
    return ask(question, recorder.block)[0]


def _missing(block: RecordedBlock) -> tuple[str, ...]:
    """Return what is missing in the recording of a block, in words."""
    window, recorded = block.recording.window, len(block.recording.runs)
    notes = []
    if block.begins_late or block.ends_early:
        before = f"the {window.skipped:,} before, and what depends on them, are not followed" if window.skipped else ""
        after = f"the {window.lost:,} behind are missing" if window.lost else ""
        parts = "; ".join(one for one in (before, after) if one)
        notes.append(f"{recorded:,} steps of the block were recorded: {parts}")
    writers = unfollowed_writers(block.recording.program)
    if writers:
        notes.append(f"what {' and '.join(writers)} write is shown from where the block first reads it")
    return tuple(notes)


def _asked_nothing(answer: Why, recorder: Recorder) -> AskedCase:
    """Return the recording of the first block of a clean case."""
    block = recorder.block(0)
    if block is None:
        return AskedCase(replace(answer, problem=f"its launch was not recorded: {recorder.problem}"))
    return AskedCase(replace(answer, verdict="fixed"), recorder, notes=_missing(block))


def _explained(case: AskedCase) -> Why:
    """Return the answer with the explanation of a finding."""
    block = case.recorder.latest if case.recorder is not None else None
    if block is None:
        return case.answer
    chains = tuple(asked.answer() for asked in case.questions)
    return replace(case.answer, explanation=Explanation(chains, block.recording.block_index, block.named, case.notes))
