"""Failing calls in the project's store, from which ``gpuemu reproduce`` runs them again."""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
from pathlib import Path

from gpuemu.verifier.comparison import Difference
from gpuemu.verifier.operations import PendingCheck
from gpuemu.verifier.recorded_calls import encoded
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.project.load import discover
from gpuemu_lsp.engine.store import RECORDED, Failure, Store, StoreError

logger = logging.getLogger("gpuemu.verifier")

MAX_CASES = 8
"""Cases of one operation that are stored from each start: a kernel that always fails would fill the disk."""


def store_root(chosen: bool | str | os.PathLike[str]) -> Path | None:
    """Return the folder whose ``.gpuemu/`` is the store; True is that of gpuemu.toml, or the current one."""
    if isinstance(chosen, bool):
        config = discover(Path.cwd()) if chosen else None
        return (Path.cwd() if config is None else config.parent) if chosen else None
    return Path(chosen)


def keep(root: Path, pending: PendingCheck, difference: Difference) -> str | None:
    """Store a failing call and return its case id; None if it was not stored."""
    operation = pending.operation
    if operation.stored >= MAX_CASES:
        return None
    operation.stored += 1
    arguments, arrays = encoded(operation.named_arguments(pending.args, pending.kwargs))
    function = inspect.unwrap(operation.function)
    code = getattr(function, "__code__", None)
    file = None if code is None else code.co_filename
    module, _, name = operation.name.partition(":")
    call: dict[str, Json] = {
        "module": module,
        "function": name,
        "file": None if file is None else _relative(file, root),
        "arguments": arguments,
        "step": pending.step,
    }
    digest = hashlib.blake2b(digest_size=8)
    for path, array in arrays.items():
        digest.update(path.encode() + array.tobytes())
    failure = Failure(
        kernel=operation.name,
        dtype=difference.dtype or "float32",
        rule=difference.rule,
        message=difference.message,
        key=CaseKey(int.from_bytes(digest.digest(), "big"), RECORDED),
        dims={f"{path}.{axis}": extent for path, array in arrays.items() for axis, extent in enumerate(array.shape)},
        tensors=arrays,
        line=None if code is None else code.co_firstlineno - 1,
    )
    try:
        with Store(root) as store:
            return store.record(failure, {"call": call})
    except (StoreError, OSError) as error:
        logger.warning("%s, call %d was not stored: %s", operation.shown, pending.step, error)
        return None


def _relative(file: str, root: Path) -> str:
    path = Path(file).resolve()
    return path.relative_to(root.resolve()).as_posix() if path.is_relative_to(root.resolve()) else str(path)
