"""Tensors of PyTorch in host code: their sizes, strides and memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from gpuemu_lsp.engine.plan.host.machine import Machine
from gpuemu_lsp.engine.plan.host.symbolic import ONE, ZERO, Polynomial, multiply, number, symbol
from gpuemu_lsp.engine.plan.host.values import Contents, Lvalue, Pointer, RecordValue, Tensor, Unknown, Value

Handler: TypeAlias = "Callable[[Machine, list[Value], tuple[str, ...], str], Value]"
Method: TypeAlias = "Callable[[Machine, Value, list[Value], Lvalue | Pointer | None, tuple[str, ...]], Value | None]"


def tensor_size(machine: Machine, tensor: Tensor, axis: int | None) -> Polynomial:
    """Return a size of a tensor, the same symbol wherever the program reads it."""
    if tensor.sizes is not None and axis is not None and -len(tensor.sizes) <= axis < len(tensor.sizes):
        return tensor.sizes[axis]
    key = f"{tensor.name}_size_{axis}".replace("-", "m")
    if key not in machine.known:
        machine.unknown(key, "parameter")
    return symbol(key)


def _tensor(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    base = name.split("::")[-1]
    first = values[0] if values else Unknown()
    kind = {"zeros": Contents("any", ZERO, ONE), "zeros_like": Contents("any", ZERO, ONE)}.get(base)
    contents = kind or (Contents() if base.startswith("empty") else Contents("any"))
    made = machine.allocate(machine.hint or "tensor", None, "device", contents)
    sizes: tuple[Polynomial, ...] | None = None
    elements: Polynomial | None = None
    if isinstance(first, Tensor):
        sizes, elements = first.sizes, tensor_elements(machine, first)
    elif isinstance(first, RecordValue) and first.type == "list":
        known = [machine.integer(value) for value in first.fields.values()]
        if all(value is not None for value in known):
            sizes = tuple(value for value in known if value is not None)
            elements = ONE
            for size in sizes:
                elements = multiply(elements, size)
    elif isinstance(first, Polynomial):
        sizes, elements = (first,), first
    allocation = made.allocation or 0
    machine.heap[allocation] = replace(machine.heap[allocation], elements=elements)
    return Tensor(machine.hint or "tensor", allocation, sizes)


def tensor_elements(machine: Machine, tensor: Tensor) -> Polynomial | None:
    """Return the number of elements of a tensor, a new symbol if the program does not say it."""
    known = machine.heap[tensor.allocation]
    if known.elements is None and tensor.sizes is None:
        count = machine.unknown(f"{tensor.name}_numel", "parameter")
        machine.heap[tensor.allocation] = replace(known, elements=count)
        machine.numels[str(count)] = tensor.name
        return count
    return known.elements


def _method_numel(
    machine: Machine, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    return tensor_elements(machine, owner) if isinstance(owner, Tensor) else None


def _method_dim(
    machine: Machine, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if not isinstance(owner, Tensor):
        return None
    if owner.sizes is not None:
        return number(len(owner.sizes))
    key = f"{owner.name}_dim"
    if key not in machine.known:
        machine.unknown(key, "parameter")
    return symbol(key)


def _method_same(
    machine: Machine, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    return owner if isinstance(owner, Tensor) else None


TENSOR_FUNCTIONS: dict[str, Handler] = dict.fromkeys(
    ("empty", "zeros", "ones", "full", "rand_like", "empty_like", "zeros_like", "ones_like", "full_like"), _tensor
)
TENSOR_METHODS: dict[str, Method] = {
    "numel": _method_numel,
    **dict.fromkeys(("dim", "ndimension"), _method_dim),
    **dict.fromkeys(("contiguous", "cuda"), _method_same),
}
