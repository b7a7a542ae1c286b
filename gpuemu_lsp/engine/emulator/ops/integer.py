"""Integer arithmetic (PTX ISA section 9.7.1) and extended precision (section 9.7.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element
from gpuemu_lsp.engine.emulator.ops.types import I8, I16, I32, I64, I128, PACKED, Signature

_ARITHMETIC = ("s16", "u16", "s32", "u32", "s64", "u64")
_WIDE = {16: I32, 32: I64, 64: I128}
_INT = {16: I16, 32: I32, 64: I64}
_TWICE = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


def _width(name: str) -> int:
    return int(name[1:])


def halved(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return ``function`` applied to both 16-bit integers in each 32-bit value."""

    def emit(lanes: LaneBuilder, *values: Value) -> Value:
        pairs = [lanes.halves(value, I16) for value in values]
        low, high = (function(lanes, *half) for half in zip(*pairs, strict=True))
        return lanes.joined(low, high)

    return emit


def _add(form: OpcodeForm) -> Operation | None:
    return _add_or_sub(form, "add")


def _sub(form: OpcodeForm) -> Operation | None:
    return _add_or_sub(form, "sub")


def _add_or_sub(form: OpcodeForm, which: str) -> Operation | None:
    saturating, carry = form.has("sat"), form.has("cc")
    name = form.type((*_ARITHMETIC, "s16x2", "u16x2"))
    if name is None or not form.done:
        return None
    if carry:
        return _with_carry(name, which, False, True) if _width(name) >= 32 and not saturating else None
    if saturating:
        if name != "s32":
            return None
        return operation(name, (name, name), lambda lanes, a, b: lanes.call(f"s{which}.sat", a, b))
    emit: Callable[..., Value] = lambda lanes, a, b: getattr(lanes.builder, which)(a, b)  # noqa: E731
    return operation(name, (name, name), halved(emit) if name in PACKED else emit)


def _addc(form: OpcodeForm) -> Operation | None:
    return _carrying(form, "add")


def _subc(form: OpcodeForm) -> Operation | None:
    return _carrying(form, "sub")


def _carrying(form: OpcodeForm, which: str) -> Operation | None:
    writes = form.has("cc")
    name = form.type(("s32", "u32", "s64", "u64"))
    return _with_carry(name, which, True, writes) if name is not None and form.done else None


def _with_carry(name: str, which: str, reads: bool, writes: bool) -> Operation:
    integer = _INT[_width(name)]

    def emit(lanes: LaneBuilder, values: Sequence[Value]) -> Sequence[Value]:
        builder = lanes.builder
        a, b = values[0], values[1]
        if which == "sub" and not reads:
            return (builder.sub(a, b), lanes.inverted(lanes.ult(a, b))) if writes else (builder.sub(a, b),)
        # The flag is the carry-out of the adder also for a subtraction, a + ~b + 1, where it is the inverse of the
        # borrow. The manual calls it a borrow (section 9.7.2), but addc after sub.cc shows the difference: ptxas makes
        # of sub.cc, subc and addc IADD3 with a - b, a + ~b + carry, a + b + carry on one predicate.
        b = builder.xor(b, lanes.integer(integer, -1)) if which == "sub" else b
        result = builder.add(a, b)
        carry = lanes.ult(result, a)
        if reads:
            # At most one of the two additions can carry.
            again = builder.add(result, lanes.resize(values[2], integer))
            carry = builder.or_(carry, lanes.ult(again, result))
            result = again
        return (result, carry) if writes else (result,)

    return Operation(
        Signature(
            (name, "pred") if writes else (name,), (name, name, "pred") if reads else (name, name), reads, writes
        ),
        emit,
    )


def _product(lanes: LaneBuilder, a: Value, b: Value, part: str, signed: bool) -> Value:
    """Return the low half (``lo``), the high half (``hi``) or all bits (``wide``) of ``a * b``."""
    builder = lanes.builder
    if part == "lo":
        return builder.mul(a, b)
    integer = element(a)
    wide = _WIDE[integer.width]
    whole = builder.mul(lanes.resize(a, wide, signed), lanes.resize(b, wide, signed))
    if part == "wide":
        return whole
    return lanes.resize(builder.lshr(whole, lanes.integer(wide, integer.width)), integer)


def _mul(form: OpcodeForm) -> Operation | None:
    part = form.take("lo", "hi", "wide")
    name = form.type(_ARITHMETIC)
    if part is None or name is None or not form.done or (part == "wide" and name not in _TWICE):
        return None
    result = _TWICE[name] if part == "wide" else name
    signed = name.startswith("s")
    return operation(result, (name, name), lambda lanes, a, b: _product(lanes, a, b, part, signed))


def _mad(form: OpcodeForm) -> Operation | None:
    part, saturating, carry = form.take("lo", "hi", "wide"), form.has("sat"), form.has("cc")
    name = form.type(_ARITHMETIC)
    if part is None or name is None or not form.done or (part == "wide" and name not in _TWICE):
        return None
    if saturating and (part, name) != ("hi", "s32"):
        return None
    if carry:
        return _mad_with_carry(name, part, False, True) if not saturating and _width(name) >= 32 else None
    result = _TWICE[name] if part == "wide" else name
    signed = name.startswith("s")

    def emit(lanes: LaneBuilder, a: Value, b: Value, c: Value) -> Value:
        product = _product(lanes, a, b, part, signed)
        return lanes.call("sadd.sat", product, c) if saturating else lanes.builder.add(product, c)

    return operation(result, (name, name, result), emit)


def _madc(form: OpcodeForm) -> Operation | None:
    part, writes = form.take("lo", "hi"), form.has("cc")
    name = form.type(("s32", "u32", "s64", "u64"))
    return _mad_with_carry(name, part, True, writes) if part and name and form.done else None


def _mad_with_carry(name: str, part: str, reads: bool, writes: bool) -> Operation | None:
    if part == "wide":
        return None
    add = _with_carry(name, "add", reads, writes)
    signed = name.startswith("s")

    def emit(lanes: LaneBuilder, values: Sequence[Value]) -> Sequence[Value]:
        return add.emit(lanes, (_product(lanes, values[0], values[1], part, signed), *values[2:]))

    sources = (name, *add.signature.sources)
    return Operation(Signature(add.signature.destinations, sources, reads, writes), emit)


def _mul24(form: OpcodeForm) -> Operation | None:
    return _multiply24(form, 2)


def _mad24(form: OpcodeForm) -> Operation | None:
    return _multiply24(form, 3)


def _multiply24(form: OpcodeForm, count: int) -> Operation | None:
    part, saturating = form.take("lo", "hi"), form.has("sat")
    name = form.type(("s32", "u32"))
    if part is None or name is None or not form.done:
        return None
    if saturating and (count, part, name) != (3, "hi", "s32"):
        return None
    signed = name == "s32"

    def emit(lanes: LaneBuilder, a: Value, b: Value, *addend: Value) -> Value:
        builder = lanes.builder
        shift = builder.ashr if signed else builder.lshr
        eight = lanes.integer(I32, 8)
        a, b = (lanes.resize(shift(builder.shl(value, eight), eight), I64, signed) for value in (a, b))
        # Of the 48-bit product, .lo is bits 0 to 31, .hi is bits 16 to 47.
        result = lanes.resize(builder.lshr(builder.mul(a, b), lanes.integer(I64, 0 if part == "lo" else 16)), I32)
        if not addend:
            return result
        return lanes.call("sadd.sat", result, *addend) if saturating else builder.add(result, *addend)

    return operation(name, (name,) * count, emit)


def _sad(form: OpcodeForm) -> Operation | None:
    name = form.type(_ARITHMETIC)
    if name is None or not form.done:
        return None
    less = "slt" if name.startswith("s") else "ult"

    def emit(lanes: LaneBuilder, a: Value, b: Value, c: Value) -> Value:
        builder = lanes.builder
        below = builder.icmp_signed("<", a, b) if less == "slt" else lanes.ult(a, b)
        return builder.add(c, lanes.select(below, builder.sub(b, a), builder.sub(a, b)))

    return operation(name, (name,) * 3, emit)


def _min(form: OpcodeForm) -> Operation | None:
    return _min_or_max(form, "min")


def _max(form: OpcodeForm) -> Operation | None:
    return _min_or_max(form, "max")


def _min_or_max(form: OpcodeForm, which: str) -> Operation | None:
    rectified = form.has("relu")
    name = form.type((*_ARITHMETIC, "s16x2", "u16x2"))
    if name is None or not form.done or (rectified and name not in ("s32", "s16x2")):
        return None
    kind = name[0]

    def emit(lanes: LaneBuilder, a: Value, b: Value) -> Value:
        chosen = lanes.call(f"{kind}{which}", a, b)
        return lanes.call("smax", chosen, lanes.integer(element(chosen), 0)) if rectified else chosen

    return operation(name, (name, name), halved(emit) if name in PACKED else emit)


def _neg(form: OpcodeForm) -> Operation | None:
    name = form.type(("s16", "s32", "s64"))
    if name is None or not form.done:
        return None
    return operation(name, (name,), lambda lanes, a: lanes.builder.sub(lanes.integer(element(a), 0), a))


def _abs(form: OpcodeForm) -> Operation | None:
    name = form.type(("s16", "s32", "s64"))
    if name is None or not form.done:
        return None

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        zero = lanes.integer(element(a), 0)
        return lanes.select(lanes.builder.icmp_signed("<", a, zero), lanes.builder.sub(zero, a), a)

    return operation(name, (name,), emit)


def _dp4a(form: OpcodeForm) -> Operation | None:
    return _dot(form, 4)


def _dp2a(form: OpcodeForm) -> Operation | None:
    return _dot(form, 2)


def _dot(form: OpcodeForm, terms: int) -> Operation | None:
    """Resolve ``dp4a`` and ``dp2a``: dot product of the bytes of b with the bytes or 16-bit halves of a, plus c."""
    half = form.take("lo", "hi") if terms == 2 else "lo"
    left, right = form.type(("s32", "u32")), form.type(("s32", "u32"))
    if half is None or left is None or right is None or not form.done:
        return None
    # The accumulator is signed if either operand is.
    result = "u32" if (left, right) == ("u32", "u32") else "s32"

    def field(lanes: LaneBuilder, value: Value, index: int, width: int, signed: bool) -> Value:
        moved = lanes.builder.lshr(value, lanes.integer(I32, index * width))
        return lanes.resize(lanes.resize(moved, I8 if width == 8 else I16), I32, signed)

    def emit(lanes: LaneBuilder, a: Value, b: Value, c: Value) -> Value:
        for index in range(terms):
            first = field(lanes, a, index, 32 // terms, left == "s32")
            second = field(lanes, b, index + (2 if half == "hi" else 0), 8, right == "s32")
            c = lanes.builder.add(c, lanes.builder.mul(first, second))
        return c

    return operation(result, (left, right, result), emit)


RESOLVERS: dict[str, Resolver] = {
    "add": _add,
    "sub": _sub,
    "addc": _addc,
    "subc": _subc,
    "mul": _mul,
    "mad": _mad,
    "madc": _madc,
    "mul24": _mul24,
    "mad24": _mad24,
    "sad": _sad,
    "min": _min,
    "max": _max,
    "neg": _neg,
    "abs": _abs,
    "dp4a": _dp4a,
    "dp2a": _dp2a,
}
