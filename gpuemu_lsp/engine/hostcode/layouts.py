"""Memory layouts of tensors: those that callers may pass, and those of new tensors that follow another one."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.hostcode.assumptions import Layout
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.values import Tensor
from gpuemu_lsp.engine.symbolic.size import Size, add, number, product, substitute, symbols

_PADDING = 8
"""Elements after each row, which belong to another tensor: as many as a vector of halves has."""
_SAMPLE = 1009
"""Sizes by which strides are ordered: large, so that padding and axes of one element do not decide."""


def laid_out(sizes: Sequence[Size], layout: Layout) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """Return the sizes of the memory of a tensor with at least two axes, and the tensor's strides in it."""
    rank = len(sizes)
    order = [*range(rank)]
    if layout is Layout.TRANSPOSED:
        order[-2:] = order[-1], order[-2]
    elif rank > 2:
        order[-3:] = order[-2], order[-3], order[-1]
    storage = tuple(sizes[axis] for axis in order)
    storage = (*storage[:-1], add(storage[-1], number(_PADDING)))
    return storage, _strides(storage, order)


def dense_strides(tensor: Tensor) -> tuple[Size, ...] | None:
    """Return the strides of a new tensor that keeps the order of the axes of another one; None if it is contiguous.

    That is ``torch.preserve_format``, the default of ``torch.empty_like`` and of elementwise functions.
    """
    sizes, strides = tensor.sizes, tensor.strides
    if sizes is None or strides is None:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: (-_sampled(strides[axis]), axis))
    if order == [*range(len(sizes))]:
        return None
    return _strides([sizes[axis] for axis in order], order)


def _strides(storage: Sequence[Size], order: Sequence[int]) -> tuple[Size, ...]:
    """Return the strides by axis of a tensor whose axes lie in memory in some order."""
    by_axis = {axis: product(storage[at + 1 :]) for at, axis in enumerate(order)}
    return tuple(by_axis[axis] for axis in sorted(by_axis))


def _sampled(size: Size) -> int:
    values = {name: number(_SAMPLE) for name in symbols(size)}
    return substitute(size, values).constant or 0


def note_read_strides(run: Execution, tensor: Tensor, axis: int | None) -> None:
    """Note that the program reads a stride of a tensor that a caller passes, or all of them."""
    memory = run.memory(tensor.allocation)
    if memory.space != "parameter" or tensor.sizes is None:
        return
    rank = len(tensor.sizes)
    whole = tensor.sizes == memory.sizes and tensor.strides is None
    axes = [axis % rank] if whole and axis is not None and -rank <= axis < rank else range(rank)
    run.reached.strides.setdefault(memory.name, set()).update(axes)
