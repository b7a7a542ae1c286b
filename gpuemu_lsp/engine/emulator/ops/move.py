"""``mov``: between registers, and as packing and unpacking of vectors (PTX ISA section 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.ops.form import Emit, OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element
from gpuemu_lsp.engine.emulator.ops.types import INTEGERS, Signature

_PLAIN = ("pred", *(f"{kind}{bits}" for kind in "bus" for bits in (16, 32, 64)), "f32", "f64", "b128")


def _mov(form: OpcodeForm) -> Operation | None:
    name = form.type(_PLAIN)
    if name is None or not form.done or len(form.shape) != 2:
        return None
    destinations, sources = form.shape
    if destinations == sources == 1:
        return operation(name, (name,), lambda _, a: a)
    if min(destinations, sources) != 1 or not name.startswith("b"):
        return None
    count = max(destinations, sources)
    width = INTEGERS[name]
    # {b8 x 4} is the narrowest: elements have at least 8 bits.
    if count not in (2, 4) or width // count < 8:
        return None
    part = f"b{width // count}"
    if sources > 1:
        return operation(name, (part,) * count, _pack(ir.IntType(width)))
    return Operation(Signature((part,) * count, (name,)), _unpack(count))


def _pack(whole: ir.IntType) -> Callable[..., Value]:
    """Return code that joins elements; the first is the least significant."""

    def emit(lanes: LaneBuilder, *parts: Value) -> Value:
        builder = lanes.builder
        width = element(parts[0]).width
        result = lanes.resize(parts[0], whole)
        for index, part in enumerate(parts[1:], 1):
            moved = builder.shl(lanes.resize(part, whole), lanes.integer(whole, index * width))
            result = builder.or_(result, moved)
        return result

    return emit


def _unpack(count: int) -> Emit:
    def emit(lanes: LaneBuilder, values: Sequence[Value]) -> Sequence[Value]:
        whole = element(values[0])
        part = ir.IntType(whole.width // count)
        return [
            lanes.resize(lanes.builder.lshr(values[0], lanes.integer(whole, index * part.width)), part)
            if index
            else lanes.resize(values[0], part)
            for index in range(count)
        ]

    return emit


RESOLVERS: dict[str, Resolver] = {"mov": _mov}
