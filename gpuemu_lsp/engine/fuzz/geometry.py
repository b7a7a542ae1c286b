"""Evaluation of a plan for concrete sizes: shapes, strides, grid, block and shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.fuzz.rng import Rng
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate

Dim3 = tuple[int, int, int]

MAX_THREADS = 1024
MAX_BLOCK: Dim3 = (1024, 1024, 64)
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
MAX_SHARED = 227 * 1024
"""Bytes of dynamic shared memory that a block can opt in to on sm_90 (CUDA C++ Programming Guide, technical
specifications)."""

_PITCHES = (1, 3, 8, 16)


class ImpossibleError(ValueError):
    """No device can launch these sizes; the message is the reason."""


class GridTooLargeError(ImpossibleError):
    """The grid has more blocks along an axis than any device launches."""


@dataclass(frozen=True, slots=True)
class CaseGeometry:
    """A case without its values.

    ``env`` is the environment of expressions: dims, ``x.size``, ``x.stride(0)``, ... ``layout`` is the case's
    ``extra``.
    """

    shapes: Mapping[str, tuple[int, ...]]
    env: Mapping[str, int]
    layout: Mapping[str, str]
    grid: Dim3
    block: Dim3
    shared_bytes: int

    @property
    def elements(self) -> int:
        """Elements of all tensors together."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        return math.prod(self.grid) * math.prod(self.block)


def evaluate_plan(
    plan: Plan,
    dims: Mapping[str, int],
    layouts: Rng | None,
    varied: frozenset[str] | None = None,
    tight: bool = False,
) -> CaseGeometry:
    """Evaluate a plan for concrete sizes.

    Parameters
    ----------
    layouts
        Generator for strides, offsets and aliases; None makes every tensor contiguous and aligned.
    varied
        The tensors whose layout is drawn; None for all.
    tight
        Use the smallest gap and offset in place of those drawn.

    Raises
    ------
    ImpossibleError
        If an expression has no value, a shape is empty or negative, or the launch exceeds the limits of every GPU.
    """
    env = dict(dims)
    shapes: dict[str, tuple[int, ...]] = {}
    layout: dict[str, str] = {}
    pending = [arg for arg in plan.args if isinstance(arg, TensorArg)]
    drawn = {arg.param: layouts for arg in pending if varied is None or arg.param in varied}
    while pending:
        later = [arg for arg in pending if not _add_tensor(arg, env, shapes, layout, drawn.get(arg.param), tight)]
        if len(later) == len(pending):
            raise ImpossibleError(_reason(later[0], env))
        pending = later
    _add_aliases(plan, shapes, layout, drawn)
    _add_shared(plan, env, layout)
    grid = _extent("grid", plan.grid, env, MAX_GRID)
    block = _extent("block", plan.block, env, MAX_BLOCK)
    if math.prod(block) > MAX_THREADS:
        raise ImpossibleError(f"a block of {_times(block)} = {math.prod(block)} threads exceeds {MAX_THREADS}")
    shared = _value(plan.shared, env, "shared")
    if not 0 <= shared <= MAX_SHARED:
        raise ImpossibleError(f"shared = {shared} bytes is outside 0 to {MAX_SHARED}")
    return CaseGeometry(shapes, env, layout, grid, block, shared)


def strides(layout: Mapping[str, str], param: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a tensor's strides in elements: those of ``layout`` (a case's ``extra``), else contiguous ones."""
    text = layout.get(f"stride:{param}")
    if text:
        return tuple(int(part) for part in text.split(","))
    return contiguous(shape)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a row-major tensor without gaps, in elements."""
    result: list[int] = []
    step = 1
    for extent in reversed(shape):
        result.append(step)
        step *= extent
    return tuple(reversed(result))


def _add_tensor(
    arg: TensorArg,
    env: dict[str, int],
    shapes: dict[str, tuple[int, ...]],
    layout: dict[str, str],
    layouts: Rng | None,
    tight: bool,
) -> bool:
    """Add one tensor's shape and layout; return False if its shape depends on a tensor that is not added yet."""
    try:
        shape = tuple(evaluate(extent, env) for extent in arg.shape)
    except ExpressionError:
        return False
    if any(extent < 1 for extent in shape):
        raise ImpossibleError(f"{arg.param} would have the shape [{', '.join(map(str, shape))}]")
    steps = contiguous(shape)
    if arg.strides:
        steps = tuple(_value(stride, env, f"a stride of {arg.param}") for stride in arg.strides)
        if steps != contiguous(shape):
            layout[f"stride:{arg.param}"] = ",".join(map(str, steps))
    own = layouts.derive(arg.param) if layouts is not None else None
    if own is not None and arg.transposed and len(shape) > 1 and own.derive("transposed").bool(0.3):
        steps = _transposed(shape)
        layout[f"stride:{arg.param}"] = ",".join(map(str, steps))
    elif own is not None and arg.strided and own.derive("stride").bool(0.5):
        steps = _padded(shape, _PITCHES[0] if tight else own.derive("pitch").choice(_PITCHES))
        layout[f"stride:{arg.param}"] = ",".join(map(str, steps))
    if own is not None and arg.align is not None and 0 < arg.align < 256 and own.derive("align").bool(0.75):
        layout[f"offset:{arg.param}"] = str(arg.align * (1 if tight else own.derive("offset").choice((1, 3))))
    shapes[arg.param] = shape
    env[f"{arg.param}.size"] = math.prod(shape)
    for axis, (extent, step) in enumerate(zip(shape, steps, strict=True)):
        env[f"{arg.param}.shape({axis})"] = extent
        env[f"{arg.param}.stride({axis})"] = step
    return True


def _padded(shape: tuple[int, ...], pitch: int) -> tuple[int, ...]:
    """Return strides of rows that are ``pitch`` elements longer, or of a vector with a stride of ``1 + pitch``."""
    if len(shape) <= 1:
        return (1 + pitch,) * len(shape)
    return tuple(step for step in contiguous((*shape[:-1], shape[-1] + pitch)))


def _transposed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor with the last two axes exchanged."""
    *outer, last, before = contiguous((*shape[:-2], shape[-1], shape[-2]))
    return (*outer, before, last)


def _add_aliases(
    plan: Plan, shapes: Mapping[str, tuple[int, ...]], layout: dict[str, str], drawn: Mapping[str, Rng | None]
) -> None:
    """Make a tensor share another one's memory in half of the cases, if ``may_alias`` and their shapes allow it."""
    by_param = {arg.param: arg for arg in plan.args if isinstance(arg, TensorArg)}
    for arg in by_param.values():
        layouts = drawn.get(arg.param)
        other = by_param.get(arg.may_alias or "")
        if layouts is None or other is None or other.dtype != arg.dtype or shapes[other.param] != shapes[arg.param]:
            continue
        if "out" not in (arg.direction, other.direction) and arg.range != other.range:
            continue  # no values could be in both ranges
        plain = not any(f"{kind}:{name}" in layout for kind in ("stride", "alias") for name in (arg.param, other.param))
        if plain and layouts.derive(arg.param).derive("alias").bool(0.5):
            layout[f"alias:{arg.param}"] = other.param


def _add_shared(plan: Plan, env: Mapping[str, int], layout: dict[str, str]) -> None:
    """Add the offsets of pointers into their memory, and the tensors that share that of another one."""
    for arg in plan.args:
        if isinstance(arg, TensorArg) and arg.shares is not None:
            layout[f"alias:{arg.param}"] = arg.shares
        if isinstance(arg, TensorArg) and arg.pointer_offset is not None:
            layout[f"pointer:{arg.param}"] = str(_value(arg.pointer_offset, env, f"the offset of {arg.param}"))


def _extent(what: str, expressions: tuple[Expression, ...], env: Mapping[str, int], limits: Dim3) -> Dim3:
    values = [_value(expression, env, what) for expression in expressions]
    x, y, z = (*values, 1, 1, 1)[:3]
    for axis, value, limit in zip("xyz", (x, y, z), limits, strict=True):
        if not 1 <= value <= limit:
            too_large = what == "grid" and value > limit
            error = GridTooLargeError if too_large else ImpossibleError
            raise error(f"{what}.{axis} = {value} is outside 1 to {limit}")
    return x, y, z


def _value(expression: Expression, env: Mapping[str, int], what: str) -> int:
    try:
        return evaluate(expression, env)
    except ExpressionError as error:
        raise ImpossibleError(f"{what} = {expression}: {error.message}") from error


def _reason(arg: TensorArg, env: Mapping[str, int]) -> str:
    for extent in arg.shape:
        try:
            evaluate(extent, env)
        except ExpressionError as error:
            return f"the shape of {arg.param}, {extent}: {error.message}"
    return f"the shape of {arg.param} has no value"


def _times(values: Dim3) -> str:
    return " x ".join(str(value) for value in values)
