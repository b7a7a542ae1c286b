"""Bitwise logic and shifts (PTX ISA section 9.7.8)."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element
from gpuemu_lsp.engine.emulator.ops.types import I32, Signature

_BITS = ("b16", "b32", "b64")


def combine(lanes: LaneBuilder, operator: str, left: Value, right: Value) -> Value:
    """Return ``left and|or|xor right``."""
    return getattr(lanes.builder, operator if operator == "xor" else f"{operator}_")(left, right)


def _binary(form: OpcodeForm) -> Operation | None:
    name = form.type(("pred", *_BITS))
    if name is None or not form.done:
        return None
    operator = form.opcode
    return operation(name, (name, name), lambda lanes, a, b: combine(lanes, operator, a, b))


def _not(form: OpcodeForm) -> Operation | None:
    name = form.type(("pred", *_BITS))
    if name is None or not form.done:
        return None
    return operation(name, (name,), lambda lanes, a: lanes.builder.xor(a, lanes.integer(element(a), -1)))


def _cnot(form: OpcodeForm) -> Operation | None:
    name = form.type(_BITS)
    if name is None or not form.done:
        return None
    return operation(
        name, (name,), lambda lanes, a: lanes.resize(lanes.ieq(a, lanes.integer(element(a), 0)), element(a))
    )


def _lop3(form: OpcodeForm) -> Operation | None:
    operator = form.take("and", "or", "xor")
    table = form.immediates[-1 if operator is None else -2]
    if form.type(("b32",)) is None or not form.done or table is None:
        return None

    def emit(lanes: LaneBuilder, values: Sequence[Value]) -> Sequence[Value]:
        result = _table(lanes, table & 0xFF, values[:3])
        if operator is None:
            return (result,)
        nonzero = lanes.builder.icmp_unsigned("!=", result, lanes.integer(I32, 0))
        return (result, combine(lanes, operator, nonzero, values[4]))

    if operator is None:
        return Operation(Signature(("b32",), ("b32",) * 4), emit)
    return Operation(Signature(("b32", "pred"), (*("b32",) * 4, "pred")), emit)


def _table(lanes: LaneBuilder, table: int, values: Sequence[Value]) -> Value:
    """Build a truth table of up to three values, by Shannon expansion on the first.

    The table has one bit per combination of values; its upper half is for the first value 1, its lower half for 0.
    """
    width = 1 << len(values)
    ones = (1 << width) - 1
    if table in (0, ones):
        return lanes.integer(I32, 0 if table == 0 else -1)
    builder = lanes.builder
    value, rest = values[0], values[1:]
    high, low = table >> (width // 2), table & ((1 << (width // 2)) - 1)
    if high == low:
        return _table(lanes, low, rest)
    half = (1 << (width // 2)) - 1
    if high ^ low == half:
        # The halves are complements: value xor low.
        return value if low == 0 else builder.xor(value, _table(lanes, low, rest))
    if low == 0:
        return builder.and_(value, _table(lanes, high, rest))
    if high == half:
        return builder.or_(value, _table(lanes, low, rest))
    # In general: low ^ (value & (low ^ high)).
    difference = _table(lanes, high ^ low, rest)
    return builder.xor(_table(lanes, low, rest), builder.and_(value, difference))


def _shl(form: OpcodeForm) -> Operation | None:
    return _shift(form, _BITS)


def _shr(form: OpcodeForm) -> Operation | None:
    return _shift(form, (*_BITS, "u16", "u32", "u64", "s16", "s32", "s64"))


def _shift(form: OpcodeForm, types: Sequence[str]) -> Operation | None:
    """Resolve shifts by an unsigned 32-bit amount, which is clamped to the width."""
    name = form.type(types)
    if name is None or not form.done:
        return None
    width = int(name[1:])
    left, signed = form.opcode == "shl", name.startswith("s")
    known = form.immediates[-1]

    def emit(lanes: LaneBuilder, a: Value, amount: Value) -> Value:
        builder = lanes.builder
        integer = element(a)
        shift = builder.shl if left else builder.ashr if signed else builder.lshr
        # In LLVM a shift by the width or more is poison, so the amount is limited, or the result selected.
        if known is not None:
            clamped = min(known & 0xFFFFFFFF, width)
            if clamped == width and not signed:
                return lanes.integer(integer, 0)
            return shift(a, lanes.integer(integer, min(clamped, width - 1)))
        if signed:
            amount = lanes.call("umin", amount, lanes.integer(I32, width - 1))
            return shift(a, lanes.resize(amount, integer))
        inside = lanes.ult(amount, lanes.integer(I32, width))
        return lanes.select(inside, shift(a, lanes.resize(amount, integer)), lanes.integer(integer, 0))

    return operation(name, (name, "u32"), emit)


def _shf(form: OpcodeForm) -> Operation | None:
    """Resolve ``shf``: funnel shift of the 64 bits ``b:a``; ``.l`` returns the upper word, ``.r`` the lower."""
    left, mode = form.take("l", "r") == "l", form.take("wrap", "clamp")
    if mode is None or form.type(("b32",)) is None or not form.done:
        return None

    def emit(lanes: LaneBuilder, a: Value, b: Value, amount: Value) -> Value:
        result = lanes.call("fshl" if left else "fshr", b, a, amount)
        # LLVM's funnel shifts take the amount modulo the width, as .wrap does.
        if mode == "wrap":
            return result
        return lanes.select(lanes.ult(amount, lanes.integer(I32, 32)), result, a if left else b)

    return operation("b32", ("b32", "b32", "u32"), emit)


RESOLVERS: dict[str, Resolver] = {
    "and": _binary,
    "or": _binary,
    "xor": _binary,
    "not": _not,
    "cnot": _cnot,
    "lop3": _lop3,
    "shl": _shl,
    "shr": _shr,
    "shf": _shf,
}
