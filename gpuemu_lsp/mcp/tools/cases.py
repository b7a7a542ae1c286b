"""``explain``, ``minimize`` and ``reproduce``: facts about a failing case, and whether it still fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.check.model import MinimisedFailure, Replay, Why
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.run_one import JobResult
from gpuemu_lsp.engine.report.explanations import explanation_record
from gpuemu_lsp.engine.report.replays import replay_record
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.mcp.call import Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.records import FINDING, INDEX, SIZES, Lines, finding_facts
from gpuemu_lsp.mcp.schemas import Schema, array, boolean, integer, nullable, number, record, text, value
from gpuemu_lsp.mcp.targets import WHAT, Given, given, request_of, targets_of
from gpuemu_lsp.mcp.tools.check import BUDGET, MOST_SECONDS

_LAUNCHES = 300
_SHOWN = 40
"""Characters of an id that is not known, in the message that says so."""
_LEAST_SECONDS = 2.0
"""Time below which no search for a smaller case begins."""

_IDENTITY: dict[str, Schema] = {
    "id": text("id of a finding, or of a stored case"),
    "kernel": text("of a stored case: only this kernel's, as kernels may share an id"),
    "budget": number(f"seconds until the answer (default: {BUDGET})", minimum=1, maximum=MOST_SECONDS),
}
_VERDICT: Schema = text(choices=("still fails", "fixed", "changed", "not executed"))
_INPUT: Schema = record(
    {"name": text(), "dtype": text(), "shape": INDEX, "nonzero": integer(minimum=0), "values": text("excerpt")}
)
_MINIMAL: Schema = record(
    {
        "case": nullable(text("id of the smaller case; null if no smaller one fails in the same way")),
        "sizes": SIZES,
        "original_sizes": SIZES,
        "inputs": array(_INPUT),
        "launches": integer(minimum=0),
        "complete": boolean("false: the budget ended the search, and there may be smaller ones"),
        "findings": array(FINDING),
    },
    description="the smallest case that breaks the same rule on the same line",
)
_STEP: Schema = record(
    {
        "file": text(),
        "line": integer("from 1", minimum=1),
        "text": text(),
        "reason": text("how what comes before depends on it", choices=("value", "index", "condition", "declaration")),
        "thread": INDEX,
        "time": integer(),
        "executions": integer(),
        "threads": integer(),
        "values": array(record({"name": text(), "value": value(), "before": array(value())})),
        "accesses": array(
            record({"name": text(), "value": value(), "access": text(), "origin": nullable(text("who wrote it"))})
        ),
    }
)
_REPLAY: dict[str, Schema] = {
    "kernel": text(),
    "dtype": text(),
    "case": text(),
    "verdict": _VERDICT,
    "stored": record({"rule": text(), "message": text()}, description="what was found when the case was stored"),
    "sizes": SIZES,
    "inputs_digest": text("the same where the same bits go in"),
    "findings": array(FINDING),
    "inputs": array(_INPUT),
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A stored case of one kernel that a call asks for; ``dtype`` None for all."""

    request: CheckRequest
    case: str
    dtype: str | None = None

    @property
    def more(self) -> dict[str, Json]:
        """Return the further payload of its jobs."""
        return {} if self.dtype is None else {"dtype": self.dtype}


def _asked(call: ToolCall) -> list[_Asked]:
    """Return the stored cases that a call means.

    Raises
    ------
    ToolError
        If there is none, or its kernel is gone.
    """
    from gpuemu_lsp.engine.jobs.stored_case_runs import find_stored_case, store_roots
    from gpuemu_lsp.engine.store import Store, StoreError

    identity, options = str(call.arguments["id"]), CheckOptions()
    reported = call.session.finding(identity)
    try:
        if reported is not None:
            finding, request = reported.finding, request_of(call.session, reported.origin, options)
            if finding.case is None:
                raise ToolError(f"{finding.rule} is not about a case: nothing ran. Its message says all that is known.")
            with Store(request.root) as store:
                stored = any(item.failure.kernel == finding.kernel for item in store.find(finding.case))
            if not stored:
                raise ToolError(
                    f"The case of this finding is not stored: only errors are, and this is {finding.severity.value}."
                )
            return [_Asked(request, finding.case, finding.dtype)]
        kernel = call.arguments.get("kernel")
        name = kernel if isinstance(kernel, str) else None
        stored_case = find_stored_case(identity, store_roots(Path.cwd()), options, name)
    except StoreError as error:
        raise ToolError(f"{error}.") from error
    if stored_case.gone:
        raise ToolError(f"Case {identity} is of {', '.join(stored_case.gone)}, which is no longer in the project.")
    if not stored_case.requests:
        raise ToolError(f"There is no finding and no stored case {identity[:_SHOWN]!r}; check reports ids of findings.")
    return [_Asked(request, identity) for request in stored_case.requests]


def _budget(call: ToolCall) -> float:
    budget = call.arguments.get("budget", BUDGET)
    assert isinstance(budget, int | float)
    return budget


def _done(call: ToolCall, asked: _Asked, result: JobResult) -> None:
    """Do nothing for a job that has ended by itself.

    Raises
    ------
    ToolError
        If it was ended, or its process was.
    """
    if result.done:
        return
    if call.reason:
        raise ToolError(f"Nothing was decided: {call.reason}.")
    raise ToolError(ending_finding(asked.request, result.ending).message)


# ---- explain ---------------------------------------------------------------------------------------------------------


def _explain(call: ToolCall) -> dict[str, Json]:
    budget = _budget(call)
    with call.budget(budget):
        asked = _asked(call)
        answers: list[Json] = [
            _explanation(call, one_case, answer, budget)
            for one_case in asked
            for answer in _explanations(call, one_case)
        ]
    if not answers:
        raise ToolError("The case is no longer stored: check again.")
    return {"explanations": answers}


def _explanations(call: ToolCall, asked: _Asked) -> list[Why]:
    from gpuemu_lsp.engine.jobs.stored_case_runs import explanations_of, run_stored_case

    call.report(call.seconds, None, f"{asked.request.spec.name}: records the case")
    result = run_stored_case(call, "why", asked.request, asked.case, **asked.more)
    _done(call, asked, result)
    return list(explanations_of(result, asked.request.root))


def _explanation(call: ToolCall, asked: _Asked, answer: Why, budget: float) -> dict[str, Json]:
    """Return an answer with the smallest case, if that is found in the budget."""
    root, lines = _shown_root(asked.request), Lines()
    explained = explanation_record(answer, root)
    minimal, unsought = None, ""
    seconds = budget - call.seconds
    if answer.verdict != "still fails":
        unsought = "the case does not fail any more"
    elif seconds < _LEAST_SECONDS:
        unsought = "the budget was used up"
    else:
        try:
            smaller = _smaller(call, asked, 0.7 * seconds)
            minimal = None if smaller is None else _minimal(smaller, root, lines)
            unsought = "" if minimal is not None else "no smaller case was sought"
        except ToolError as error:
            unsought = str(error).rstrip(".")
    return {
        "kernel": answer.kernel,
        "dtype": answer.dtype,
        "case": answer.case,
        "verdict": answer.verdict,
        "problem": answer.problem or None,
        "finding": None if answer.finding is None else finding_facts(answer.finding, root, lines),
        "block": explained["block"],
        "names": explained["names"],
        "notes": explained["notes"],
        "chains": explained["chains"],
        "minimal": minimal,
        "minimal_problem": unsought or None,
    }


EXPLAIN = Tool(
    name="explain",
    title="Explain a finding",
    description=(
        "Explain why a case fails: the failing element and thread, both threads of a race, and statement by statement "
        "with values and threads what the wrong value, index or decision comes from, back to who wrote it; and the "
        "smallest sizes at which it fails in the same way. Takes the id of a finding of check."
    ),
    arguments=record(_IDENTITY, required=("id",)),
    result=record(
        {
            "explanations": array(
                record(
                    {
                        "kernel": text(),
                        "dtype": text(),
                        "case": text(),
                        "verdict": _VERDICT,
                        "problem": nullable(text("why there is no explanation")),
                        "finding": nullable(FINDING),
                        "block": nullable(INDEX),
                        "names": nullable(boolean("false: the code that fails has no names of variables")),
                        "notes": array(text()),
                        "chains": array(
                            record({"question": text(), "notes": array(text()), "steps": array(_STEP)}),
                            "one for a wrong value, two for a race",
                        ),
                        "minimal": nullable(_MINIMAL),
                        "minimal_problem": nullable(text("why there is no smallest case")),
                    }
                )
            )
        }
    ),
    run=_explain,
)


# ---- minimize --------------------------------------------------------------------------------------------------------


def _minimize(call: ToolCall) -> dict[str, Json]:
    budget = _budget(call)
    answers: list[Json] = []
    with call.budget(budget):
        for asked in _asked(call):
            smaller = _smaller(call, asked, max(1.0, 0.7 * (budget - call.seconds)))
            if smaller is None:
                raise ToolError("The case is no longer stored: check again.")
            answers.append(
                {
                    "kernel": smaller.replay.kernel,
                    "dtype": smaller.replay.dtype,
                    "case": smaller.original,
                    "verdict": smaller.replay.verdict,
                    "minimal": _minimal(smaller, _shown_root(asked.request), Lines()),
                }
            )
    return {"minimized": answers}


def _smaller(call: ToolCall, asked: _Asked, seconds: float) -> MinimisedFailure | None:
    """Return the smallest case that is found in some seconds; None if the case is no longer stored."""
    from gpuemu_lsp.engine.jobs.stored_case_runs import is_recorded, run_stored_case, smaller_cases_of

    if is_recorded(asked.request, asked.case):
        raise ToolError(f"Case {asked.case} is a recorded call, which is not minimized.")
    call.report(call.seconds, None, f"{asked.request.spec.name}: searches smaller cases")
    limits: dict[str, Json] = {"strategy": "all", "max_runs": _LAUNCHES, "max_seconds": seconds}
    result = run_stored_case(call, "minimize", asked.request, asked.case, **limits, **asked.more)
    _done(call, asked, result)
    return next(smaller_cases_of(result, asked.request.root), None)


def _minimal(smaller: MinimisedFailure, root: str, lines: Lines) -> dict[str, Json]:
    replay = smaller.replay
    return {
        "case": smaller.case,
        "sizes": dict(replay.dims),
        "original_sizes": dict(smaller.original_dims),
        "inputs": _inputs(replay),
        "launches": smaller.runs,
        "complete": smaller.complete,
        "findings": [finding_facts(finding, root, lines) for finding in replay.findings],
    }


MINIMIZE = Tool(
    name="minimize",
    title="Minimize a failing case",
    description="Find the smallest and plainest case that breaks the same rule on the same line, and store it.",
    arguments=record(_IDENTITY, required=("id",)),
    result=record(
        {
            "minimized": array(
                record({"kernel": text(), "dtype": text(), "case": text(), "verdict": _VERDICT, "minimal": _MINIMAL})
            )
        }
    ),
    run=_minimize,
)


# ---- reproduce -------------------------------------------------------------------------------------------------------


def _reproduce(call: ToolCall) -> dict[str, Json]:
    answers: list[Json] = []
    with call.budget(_budget(call)):
        for asked in _asked(call):
            now = _with_new_text(call, asked)
            answers += [_replayed(replay, now.request) for replay in _replays(call, now, update=now is asked)]
    if not answers:
        raise ToolError("The case is no longer stored: check again.")
    return {"replays": answers}


def _replays(call: ToolCall, asked: _Asked, *, update: bool) -> Iterator[Replay]:
    from gpuemu_lsp.engine.jobs.stored_case_runs import replays_of, run_stored_case

    result = run_stored_case(call, "reproduce", asked.request, asked.case, update=update, **asked.more)
    _done(call, asked, result)
    return replays_of(result, asked.request.root)


def _with_new_text(call: ToolCall, asked: _Asked) -> _Asked:
    """Return a case for the kernel of the same name in what the arguments name, if they name anything."""
    if not any(call.arguments.get(name) is not None for name in ("path", "source", "files")):
        return asked
    what: Given = given(call.session, call.arguments)
    request = targets_of(call.session, what, CheckOptions(), asked.request.spec.name).requests[0]
    root = asked.request.root
    return replace(asked, request=replace(request, root=root, options=replace(request.options, store_root=root)))


def _replayed(replay: Replay, request: CheckRequest) -> dict[str, Json]:
    root, lines = _shown_root(request), Lines()
    stored = replay_record(replay, root)
    return {
        **{name: stored[name] for name in ("kernel", "dtype", "case", "verdict", "stored", "inputs_digest")},
        "sizes": dict(replay.dims),
        "findings": [finding_facts(finding, root, lines) for finding in replay.findings],
        "inputs": _inputs(replay),
    }


def _inputs(replay: Replay) -> list[Json]:
    return [
        {
            "name": item.name,
            "dtype": item.dtype,
            "shape": list(item.shape),
            "nonzero": item.nonzero,
            "values": item.text,
        }
        for item in replay.inputs
    ]


def _shown_root(request: CheckRequest) -> str:
    """Return the folder that paths are shown relative to: of a file in no project, the file's own."""
    source = Path(request.spec.source)
    return request.root if source.is_relative_to(request.root) else str(source.parent)


REPRODUCE = Tool(
    name="reproduce",
    title="Run a failing case again",
    description=(
        "Run a stored case again on the kernel as it is now: fixed, still fails, changed (fails otherwise) or not "
        "executed. For a kernel that was given as text, give its new text. Then check: other cases may fail."
    ),
    arguments=record({**_IDENTITY, **{name: WHAT[name] for name in ("path", "source", "name", "files")}}, ("id",)),
    result=record({"replays": array(record(_REPLAY))}),
    run=_reproduce,
)
