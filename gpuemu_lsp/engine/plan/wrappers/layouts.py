"""Launches with tensors that are not contiguous, where a function reads the strides of what its callers pass.

The function is interpreted once more with such tensors: it may copy them, refuse them, or pass other strides. What a
launch then passes otherwise becomes one entry with that of the contiguous tensors: a size that is 0 or 1 chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from gpuemu_lsp.engine.hostcode.assumptions import Layout
from gpuemu_lsp.engine.hostcode.state import HostRun
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel
from gpuemu_lsp.engine.plan.wrappers.launch_sizes import named
from gpuemu_lsp.engine.project.expressions import Expression
from gpuemu_lsp.engine.project.model import ConstexprValue, DimSpec, LaunchSpec, PointerSpec, ScalarSpec
from gpuemu_lsp.engine.symbolic.expressions import expression_of, size_of
from gpuemu_lsp.engine.symbolic.size import Size, add, multiply, product


class _DifferentError(Exception):
    """The launch with other tensors is not one of the same form."""


def layouts_to_try(run: HostRun) -> Iterator[Mapping[str, Layout]]:
    """Yield the layouts of tensors of callers that a function expects, as it reads their strides; best first."""
    ranks = {run.tensors[each]: len(run.launches[0].memory[each].sizes or ()) for each in _passed(run)}
    read = {name: axes for name, axes in run.strides.items() if ranks.get(name, 0) > 1}
    # A function that reads the stride of the last axis expects that it is not 1.
    transposed = {name: Layout.TRANSPOSED for name, axes in read.items() if ranks[name] - 1 in axes}
    padded = {name: Layout.PADDED for name, axes in read.items() if axes - {ranks[name] - 1}}
    yield from (each for each in (transposed, padded) if each)


def _passed(run: HostRun) -> Set[int]:
    return run.tensors.keys() & (run.launches[0].memory.keys() if run.launches else set())


def with_layouts(inferred: InferredKernel) -> InferredKernel:
    """Return the entry that tries tensors that are not contiguous too, if the launch passes something else then."""
    both = (_with_layout(inferred, other, layout) for layout, other in inferred.layouts)
    return next((each for each in both if each is not None), inferred)


def _with_layout(first: InferredKernel, other: InferredKernel, layout: Layout) -> InferredKernel | None:
    """Return the entry of both launches; None if they are equal, or differ in more than numbers."""
    name = layout.value
    dims = first.spec.dims or {}
    if name in dims or dims.keys() != (other.spec.dims or {}).keys():
        return None
    if first.conditions != other.conditions or first.spec.args == other.spec.args:
        return None
    choose = _Choice(named(name))
    try:
        args = {key: choose.argument(arg, (other.spec.args or {})[key]) for key, arg in (first.spec.args or {}).items()}
        constexprs = {
            key: choose.values(values, other.spec.constexprs[key]) for key, values in first.spec.constexprs.items()
        }
        launch = choose.launch(first.spec.launch, other.spec.launch)
    except (KeyError, _DifferentError):
        return None
    dims = {**dims, name: DimSpec(name, 0, 1, (0, 1), 1, (0, 1))}
    laid_out = [key for key, arg in args.items() if isinstance(arg, PointerSpec) and arg.strides]
    strides = {key: arg.strides for key, arg in (other.spec.args or {}).items() if isinstance(arg, PointerSpec)}
    notes = tuple(f"with {name} = 1 the strides of {key} are ({', '.join(map(str, strides[key]))})" for key in laid_out)
    return replace(
        first,
        spec=replace(first.spec, dims=dims, args=args, constexprs=constexprs, launch=launch),
        notes=(*first.notes, *notes),
        uncertain=first.uncertain | other.uncertain,
    )


class _Choice:
    """Choice between the values of two launches by a size that is 0 or 1."""

    def __init__(self, second: Size) -> None:
        self._second = second

    def _size(self, one: Size, other: Size) -> Size:
        return add(one, multiply(self._second, add(other, one, -1)))

    def _expression(self, one: Expression, other: Expression) -> Expression:
        return one if one == other else expression_of(self._size(size_of(one, 1), size_of(other, 1)))

    def _expressions(self, first: tuple[Expression, ...], other: tuple[Expression, ...]) -> tuple[Expression, ...]:
        if len(first) != len(other):
            raise _DifferentError
        return tuple(self._expression(*pair) for pair in zip(first, other, strict=True))

    def argument(self, one: PointerSpec | ScalarSpec, other: PointerSpec | ScalarSpec) -> PointerSpec | ScalarSpec:
        """Return an argument that is one of two.

        Raises
        ------
        _DifferentError
            If they are not of the same kind.
        """
        if isinstance(one, ScalarSpec) and isinstance(other, ScalarSpec):
            if isinstance(one.value, Expression) and isinstance(other.value, Expression):
                return replace(one, value=self._expression(one.value, other.value))
            if one.value == other.value:
                return one
        if isinstance(one, PointerSpec) and isinstance(other, PointerSpec):
            shapes = one.shape, other.shape
            if len(shapes[0]) != len(shapes[1]):
                shapes = _flat(shapes[0]), _flat(shapes[1])
            chosen = replace(one, shape=self._expressions(*shapes))
            if replace(other, shape=one.shape, strides=()) != one:
                raise _DifferentError
            if other.strides:
                chosen = replace(chosen, strides=self._expressions(_contiguous(one.shape), other.strides))
            return chosen
        raise _DifferentError

    def values(self, one: tuple[ConstexprValue, ...], other: tuple[ConstexprValue, ...]) -> tuple[ConstexprValue, ...]:
        """Return compile-time values that are those of one of two launches.

        Raises
        ------
        _DifferentError
            If they differ in more than integers.
        """
        if len(one) != len(other):
            raise _DifferentError
        chosen: list[ConstexprValue] = []
        for value, second in zip(one, other, strict=True):
            if isinstance(value, Expression) and isinstance(second, Expression):
                chosen.append(self._expression(value, second))
            elif value == second:
                chosen.append(value)
            else:
                raise _DifferentError
        return tuple(chosen)

    def launch(self, one: LaunchSpec | None, other: LaunchSpec | None) -> LaunchSpec | None:
        """Return the launch with the grid of one of two.

        Raises
        ------
        _DifferentError
            If they differ in more than the grid.
        """
        if one is None or other is None or replace(other, grid=one.grid) != one:
            raise _DifferentError
        return replace(one, grid=self._expressions(one.grid or (), other.grid or ()))


def _flat(shape: tuple[Expression, ...]) -> tuple[Expression, ...]:
    return (expression_of(product(size_of(extent, 1) for extent in shape)),)


def _contiguous(shape: tuple[Expression, ...]) -> tuple[Expression, ...]:
    sizes = [size_of(extent, 1) for extent in shape]
    return tuple(expression_of(product(sizes[axis + 1 :])) for axis in range(len(sizes)))
