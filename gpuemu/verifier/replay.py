"""Replay of a stored call. It imports the module of the function, so it runs in workers only."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.verifier.judgement import judge_call
from gpuemu.verifier.operations import Operation, PendingCheck
from gpuemu.verifier.recorded_calls import NotReplayableError, decoded
from gpuemu.verifier.values import snapshot
from gpuemu_lsp.engine.check.model import InputPreview, Replay
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.store import Failure
from gpuemu_lsp.engine.subjects.user_module import ModuleError, import_module, import_name


def replay_call(root: str, failure: Failure, case_id: str, details: Mapping[str, Json]) -> Replay:
    """Call the function of a stored failure with its inputs, and compare it with its ground truth again."""
    call = details.get("call")
    if not isinstance(call, dict):
        return replayed(failure, case_id, root, "not executed", "its call is not stored")
    file, name = call.get("file"), str(call.get("function"))
    path = None if file is None else Path(root, str(file))
    try:
        function = _function(path, str(call.get("module")), name, root)
        arguments = call.get("arguments")
        assert isinstance(arguments, dict)
        given = {key: decoded(value, failure.tensors, key) for key, value in arguments.items()}
    except (NotReplayableError, ModuleError, OSError) as error:
        return replayed(failure, case_id, root, "not executed", str(error), path)
    operation: Operation = function.operation
    line = inspect.unwrap(operation.function).__code__.co_firstlineno
    try:
        args, kwargs = _bound(operation, given)
        pending = PendingCheck(operation, snapshot(args), snapshot(kwargs), True, 0, 0)
        pending.result = snapshot(operation.function(*args, **kwargs))
        difference = judge_call(pending).difference
    except Exception as error:
        message = f"the call raised {type(error).__name__}: {error}"
        return replayed(failure, case_id, root, "not executed", message, path, line)
    if difference is None:
        return replayed(failure, case_id, root, "fixed", None, path, line)
    verdict = "still fails" if difference.rule == failure.rule else "changed"
    found = finding(difference.rule, difference.message, failure, case_id, place_of(root, path, line))
    return replay_of(failure, case_id, verdict, (found,))


def _function(path: Path | None, module_name: str, name: str, root: str) -> Any:
    """Return the decorated function.

    Raises
    ------
    NotReplayableError
        If there is no such function, or it is no longer decorated.
    """
    if "<locals>" in name or "<lambda>" in name:
        raise NotReplayableError(f"'{name}' is defined inside a function; define it in its module to replay it")
    if path is not None and path.suffix == ".py":
        found: Any = import_module(str(path), path.read_text(encoding="utf-8-sig"))
    else:
        found = import_name(module_name, (root, f"{root}/src"))
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(getattr(found, "operation", None), Operation):
        raise NotReplayableError(f"'{name}' is no longer a function under @equivalent")
    return found


def _bound(operation: Operation, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    signature = inspect.signature(operation.function)
    bound = inspect.BoundArguments(signature, given)
    return bound.args, bound.kwargs


def replayed(
    failure: Failure,
    case_id: str,
    root: str,
    verdict: str,
    why: str | None,
    path: Path | None = None,
    line: int | None = None,
) -> Replay:
    """Return the replay of a case that was not executed, with the reason, or of one that is fixed."""
    place = place_of(root, path, line)
    message = f"The stored call cannot be replayed: {why}."
    findings = () if why is None else (finding("engine/not-executed", message, failure, case_id, place),)
    return replay_of(failure, case_id, verdict, findings)


def replay_of(failure: Failure, case_id: str, verdict: str, findings: tuple[Finding, ...]) -> Replay:
    """Return the replay of a stored call."""
    inputs = tuple(
        InputPreview(name, array.dtype.name, tuple(array.shape), int(np.count_nonzero(array)), "")
        for name, array in failure.tensors.items()
    )
    return Replay(
        failure.kernel,
        failure.dtype,
        case_id,
        verdict,
        failure.rule,
        failure.message,
        dict(failure.dims),
        findings,
        inputs,
    )


def finding(rule: str, message: str, failure: Failure, case_id: str, place: Place) -> Finding:
    """Return a finding of a stored call."""
    return make(rule, message, place, kernel=failure.kernel, dtype=failure.dtype, case=case_id)


def place_of(root: str, path: Path | None, line: int | None) -> Place:
    """Return a line of a file, counted from 1; of gpuemu.toml without a file."""
    file = Path(root, "gpuemu.toml") if path is None else path
    row = (line or 1) - 1
    return Place(file.as_posix(), Range.of(row, 0, row, 1))
