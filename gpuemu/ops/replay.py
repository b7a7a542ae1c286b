"""Replay of recorded calls, such as failed validations of a :class:`gpuemu.Client`. In workers only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuemu.ops.evaluations import called, texts
from gpuemu.ops.judgement import judge_op
from gpuemu.ops.project_ops import find_op
from gpuemu.ops.stored_calls import StoredCall, call_of, why_not_callable
from gpuemu.ops.stored_validations import stored_validation
from gpuemu.verifier.recorded_calls import NotReplayableError
from gpuemu.verifier.replay import finding, replay_call, replay_of, replayed
from gpuemu_lsp.engine.check.model import Replay
from gpuemu_lsp.engine.findings import Json, Place, Range
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.store import Failure


def replay(root: str, failure: Failure, case_id: str, details: Mapping[str, Json]) -> Replay:
    """Repeat a call that a client or the runtime verifier has recorded: the entry point ``replay-call``."""
    function = replay_validation if "validation" in details else replay_call
    return function(root, failure, case_id, details)


def replay_validation(root: str, failure: Failure, case_id: str, details: Mapping[str, Json]) -> Replay:
    """Call the op of a stored validation with its inputs, and compare it with its reference again."""
    try:
        spec = find_op(discover(Path(root)), failure.kernel)
    except ValueError as error:
        return replayed(failure, case_id, root, "not executed", str(error))
    try:
        stored = stored_validation(failure, details)
    except NotReplayableError as error:
        return replayed(failure, case_id, root, "not executed", str(error))
    call = call_of(spec, stored.call)
    if call is None:
        return replayed(failure, case_id, root, "not executed", why_not_callable(spec, case_id))
    options = stored.options
    output, judged = called(spec, call, stored.inputs, options.kwargs)
    if judged is None:
        rounds = options.each_operation_rounds
        judged = judge_op(spec, stored.inputs, output, options.atol, options.rtol, texts(options.kwargs), rounds)
    if judged.rule == "engine/not-executed":
        return replayed(failure, case_id, root, "not executed", str(judged.failures[0]["message"]))
    if judged.passed:
        return replayed(failure, case_id, root, "fixed", None)
    verdict = "still fails" if judged.rule == failure.rule else "changed"
    found = finding(judged.rule, str(judged.failures[0]["message"]), failure, case_id, _place(spec, call))
    return replay_of(failure, case_id, verdict, (found,))


def _place(spec: KernelSpec, call: StoredCall) -> Place:
    """Return the file of the function that was called, else the entry in gpuemu.toml."""
    entry = spec.places.get("name") or Place(spec.source, Range.of(0, 0, 0, 1))
    return Place(call.file, Range.of(0, 0, 0, 1)) if call.function and call.file else entry
