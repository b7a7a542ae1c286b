"""Entries of gpuemu.toml that a program validates by name: ops, and kernels that it launches itself."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.model import KernelSpec, OpSpec, PointerSpec

KERNEL = "kernel"
"""Execution mode of a ``[[kernels]]`` entry: the emulator runs it, and results of a program do not count for it."""
SIZES: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "batch_sizes": ("batch", (1, 2, 4, 8)),
    "seq_lengths": ("seq", (64, 128, 256, 512)),
    "hidden_dims": ("hidden", (512, 768, 1024)),
}
"""Options of the original's ``fuzz_op``: the name of a dim, and its sizes by default."""


def find_op(config: Path | None, name: str) -> KernelSpec:
    """Return the entry of an op, or of a kernel with a reference as one.

    Raises
    ------
    ValueError
        If there is none, or it has errors.
    """
    project = load(config)
    specs = {spec.name: spec for spec in project.kernels if spec.op is not None or spec.reference is not None}
    if name in specs:
        return specs[name] if config is None else _as_op(specs[name], config.parent)
    where = "there is no gpuemu.toml" if config is None else f"{config} has no op '{name}'"
    if name in project.broken:
        errors = [one for one in project.findings if one.severity is Severity.ERROR]
        lines = [f"{config}:{one.place.range.start.line + 1}: {one.message}" for one in errors]
        raise ValueError("\n".join([f"the entry of '{name}' is not used, because it has an error:", *lines]))
    close = difflib.get_close_matches(name, specs, n=1)
    raise ValueError(where + (f"; did you mean '{close[0]}'?" if close else ""))


def input_names(spec: KernelSpec) -> tuple[str, ...]:
    """Return the names of an op's inputs without ``[ops.args]``: ``input_names``, else those that its reference reads.

    A reference reads ``inputs["x"]``, where ``inputs`` is its first parameter.
    """
    assert spec.op is not None
    if spec.op.input_names or spec.reference is None:
        return spec.op.input_names
    try:
        tree = ast.parse(Path(spec.reference).read_text(encoding="utf-8-sig"))
    except (OSError, SyntaxError, ValueError):
        return ()
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name == spec.reference_function and function.args.args:
            return _read_keys(function, function.args.args[0].arg)
    return ()


def sized_schema(spec: KernelSpec, sizes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the schema of an op whose inputs have the original's shape ``[batch, seq, hidden]``.

    ``sizes`` has ``batch_sizes``, ``seq_lengths`` and ``hidden_dims``; those that are missing are the original's.
    """
    dims = [{"name": name, "candidates": [*(sizes.get(key) or default)]} for key, (name, default) in SIZES.items()]
    axes = [str(one["name"]) for one in dims]
    return {"dims": dims, "inputs": [{"name": name, "dims": axes} for name in input_names(spec) or ("input",)]}


def _read_keys(function: ast.FunctionDef, mapping: str) -> tuple[str, ...]:
    keys = [
        (node.lineno, node.col_offset, node.slice.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == mapping
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    ]
    return tuple(dict.fromkeys(key for *_, key in sorted(keys)))


def _as_op(spec: KernelSpec, folder: Path) -> KernelSpec:
    if spec.op is not None:
        return spec
    pointers = {name: arg for name, arg in (spec.args or {}).items() if isinstance(arg, PointerSpec)}
    return replace(spec, op=OpSpec(str(folder), execution_mode=KERNEL), args=pointers or None)
