"""The block size and dynamic shared memory a kernel is launched with, where they are plain numbers."""

from __future__ import annotations

import math

from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source import read

_known: dict[tuple[str, str, str | None, str], tuple[Plan, ...]] = {}
_MOST = 256


def plans_of(spec: KernelSpec, text: str) -> tuple[Plan, ...]:
    """Return what a kernel's text and entry say of its launches; nothing is compiled or run."""
    key = (spec.source, spec.name, spec.entry, f"{hash(text)}:{hash(repr((spec.launch, spec.args, spec.dims)))}")
    if key not in _known:
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = resolve(spec, read(spec.source, text, spec.include_dirs)).plans
    return _known[key]


def block_of(spec: KernelSpec, text: str) -> tuple[int, int] | None:
    """Return threads per block and bytes of dynamic shared memory; None where sizes decide."""
    for plan in plans_of(spec, text):
        sizes = [_number(size) for size in plan.block]
        if all(size is not None for size in sizes):
            return math.prod(size for size in sizes if size is not None), _number(plan.shared) or 0
    return None


def _number(expression: Expression) -> int | None:
    try:
        return evaluate(expression, {})
    except ExpressionError:
        return None
