"""Scalar arguments of ``[ops.args]`` for inputs that a program gives: numbers, and expressions over their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate
from gpuemu_lsp.engine.project.model import KernelSpec, PointerSpec, ScalarSpec


def op_scalars(spec: KernelSpec, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Return the values by parameter; without those that the shapes of the inputs do not determine."""
    sizes = _sizes(spec, inputs)
    found: dict[str, Any] = {}
    for name, arg in (spec.args or {}).items():
        if isinstance(arg, ScalarSpec):
            try:
                found[name] = evaluate(arg.value, sizes) if isinstance(arg.value, Expression) else arg.value
            except ExpressionError:
                continue
    return found


def reference_scalars(spec: KernelSpec, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Return the values by their names in the reference."""
    args = spec.args or {}
    return {args[name].key or name: value for name, value in op_scalars(spec, inputs).items()}


def _sizes(spec: KernelSpec, inputs: Mapping[str, Array]) -> dict[str, int]:
    """Return the dims that are the extent of an input."""
    sizes = {dim.name: dim.minimum for dim in (spec.dims or {}).values() if dim.minimum and dim.minimum == dim.maximum}
    for name, arg in (spec.args or {}).items():
        given = inputs.get(name, inputs.get(arg.key or name))
        if isinstance(arg, PointerSpec) and given is not None and given.ndim == len(arg.shape):
            sizes.update({str(extent): size for extent, size in zip(arg.shape, given.shape, strict=True)})
    return sizes
