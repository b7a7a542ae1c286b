"""Tensors that functions choose or compute along an axis, and the outputs of layers."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.hostcode.assumptions import TensorRank, UnexpectedRankError
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensors import as_tensor, copied, listed, new_tensor, passed_tensor
from gpuemu_lsp.engine.hostcode.values import Contents, RecordValue, StringValue, Tensor, Value
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, number

_ELEMENTWISE_LAYERS = frozenset({
    "ReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "LeakyReLU", "ELU", "Softplus", "Hardtanh", "Hardswish", "Mish",
    "Softmax", "LogSoftmax", "Dropout", "Identity", "LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d",
    "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
})  # fmt: skip
"""Layers whose output has the sizes of their input."""


def axis_of(tensor: Tensor, values: Sequence[Value], at: int = 0) -> int | None:
    """Return an axis of a tensor, counted from the first one; None if it is not known."""
    value = values[at] if len(values) > at else None
    axis = value.constant if isinstance(value, Size) else None
    rank = len(tensor.sizes or ())
    return axis % rank if axis is not None and rank and -rank <= axis < rank else None


def largest(run: Execution, tensor: Tensor, values: list[Value]) -> Value | None:
    """Return the results of ``topk(k, dim)``: of the last axis, if none is given."""
    axis = (
        axis_of(tensor, values, 1) if len(values) > 1 and isinstance(values[1], Size) else axis_of(tensor, [number(-1)])
    )
    count = values[0] if values else None
    if axis is None or not isinstance(count, Size):
        return None
    sizes = tensor.sizes or ()
    return _values_and_indices(run, tensor, axis, (*sizes[:axis], count, *sizes[axis + 1 :]))


def in_order(run: Execution, tensor: Tensor, values: list[Value]) -> Value | None:
    """Return the results of ``sort(dim)``."""
    axis = axis_of(tensor, [value for value in values if isinstance(value, Size)] or [number(-1)])
    return _values_and_indices(run, tensor, axis, tensor.sizes or ()) if axis is not None else None


def extreme_along(run: Execution, tensor: Tensor, values: list[Value]) -> Value | None:
    """Return the results of ``max(dim, keepdim)``; those of all elements are not known."""
    axis = axis_of(tensor, values)
    if axis is None:
        return None
    kept = (ONE,) if Condition(True) in values[1:] else ()
    sizes = tensor.sizes or ()
    return _values_and_indices(run, tensor, axis, (*sizes[:axis], *kept, *sizes[axis + 1 :]))


def _values_and_indices(run: Execution, tensor: Tensor, axis: int, sizes: tuple[Size, ...]) -> RecordValue:
    memory, extent = run.memory(tensor.allocation), (tensor.sizes or ())[axis]
    contents = Contents("any", memory.contents.low, memory.contents.high)
    found = new_tensor(run, f"{tensor.name}_values", sizes, memory.dtype, contents, memory.exact)
    indices = new_tensor(run, f"{tensor.name}_indices", sizes, "int64", Contents("any", ZERO, extent), memory.exact)
    return listed([found, indices])


def layer_output(run: Execution, name: str, layer: RecordValue, value: Value) -> Value:
    """Return what a layer of ``torch.nn`` computes of a tensor.

    A convolution and the like give a tensor whose sizes are its own, as they depend on more than those of the input.
    """
    tensor, kind = as_tensor(run, value), layer.fields["name"]
    if tensor is not None and isinstance(kind, StringValue) and kind.text in _ELEMENTWISE_LAYERS:
        return copied(run, tensor)
    if run.assumptions.ranks and f"{name}_output" not in run.assumptions.ranks:
        raise UnexpectedRankError(f"{name}_output", TensorRank(1, certain=False))
    output = passed_tensor(run, f"{name}_output")
    run.reached.tensors[output.allocation] = output.name
    return output
