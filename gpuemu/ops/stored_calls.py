"""What an op of a stored case is called by: a function that the program passed, or the entry of gpuemu.toml."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.ops.calls import Op, OpFailure, import_op
from gpuemu_lsp.engine.subjects.user_module import import_module, import_name


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A function of a module; without a name, what gpuemu.toml says to call. ``file`` is an absolute path."""

    module: str = ""
    function: str = ""
    file: str = ""


def stored_call(run_op: Callable[..., Any]) -> StoredCall | None:
    """Return how another process calls a function, None for a lambda, a closure or a method of an object."""
    module, name = getattr(run_op, "__module__", None), getattr(run_op, "__qualname__", "<")
    if not isinstance(module, str) or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    file = getattr(found, "__file__", None)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not run_op or (module == "__main__" and file is None):
        return None
    return StoredCall(module, name, str(Path(file).resolve()) if isinstance(file, str) else "")


def call_of(spec: KernelSpec, stored: StoredCall | None) -> StoredCall | None:
    """Return what runs an op: the function of a stored case, else what gpuemu.toml says to call, else None."""
    return stored or (StoredCall() if spec.op is not None and spec.op.runnable else None)


def why_not_callable(spec: KernelSpec, seed: str) -> str:
    """Return what is missing to run the op of a stored case again."""
    return (
        f"'{spec.name}' was not run: gpuemu.toml does not say what to call, and the case was not run by a function of "
        f'a module. Add op = "module:function" to its entry, or call Client().reproduce({seed}, run_op=...)'
    )


def import_call(spec: KernelSpec, call: StoredCall) -> Op:
    """Import what a stored case calls.

    Raises
    ------
    ModuleError, OpFailure
        If it cannot be imported.
    """
    if not call.function:
        assert spec.op is not None
        return import_op(spec.op, None)
    assert spec.op is not None
    if call.file.endswith(".py"):
        found: Any = import_module(call.file, Path(call.file).read_text(encoding="utf-8-sig"))
    else:
        found = import_name(call.module, (spec.op.folder, f"{spec.op.folder}/src"))
    for part in call.function.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise OpFailure(f"{call.module} has no function '{call.function}'")
    return Op(found, spec.op.folder, mapping=True)


def accepted_keywords(op: Op, kwargs: Mapping[str, Json]) -> dict[str, Json]:
    """Return the keyword arguments of a case that an op has parameters for."""
    try:
        parameters = inspect.signature(op.function).parameters.values()
    except (TypeError, ValueError):
        return dict(kwargs)
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return dict(kwargs)
    names = {one.name for one in parameters}
    return {name: value for name, value in kwargs.items() if name in names}
