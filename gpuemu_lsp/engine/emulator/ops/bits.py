"""Bit counts, bit search, bit fields and byte permutation (PTX ISA sections 9.7.1, 9.7.8 and 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable

from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element
from gpuemu_lsp.engine.emulator.ops.types import I1, I8, I32, I64

_WORDS = ("u32", "s32", "u64", "s64")


def _popc(form: OpcodeForm) -> Operation | None:
    return _count(form, "ctpop")


def _clz(form: OpcodeForm) -> Operation | None:
    return _count(form, "ctlz")


def _count(form: OpcodeForm, intrinsic: str) -> Operation | None:
    name = form.type(("b32", "b64"))
    if name is None or not form.done:
        return None

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        count = _leading_zeros(lanes, a) if intrinsic == "ctlz" else lanes.call(intrinsic, a)
        return lanes.resize(count, I32)

    return operation("u32", (name,), emit)


def _leading_zeros(lanes: LaneBuilder, value: Value) -> Value:
    # The second operand, is_zero_poison, is a scalar i1 for vectors as well: false, since PTX defines clz of zero.
    return lanes.call("ctlz", value, LaneBuilder(lanes.builder, None, lanes.target).integer(I1, 0))


def _brev(form: OpcodeForm) -> Operation | None:
    name = form.type(("b32", "b64"))
    if name is None or not form.done:
        return None
    return operation(name, (name,), lambda lanes, a: lanes.call("bitreverse", a))


def _bfind(form: OpcodeForm) -> Operation | None:
    """Resolve ``bfind``: position of the highest 1 bit (signed: of the highest bit unlike the sign), -1 if none."""
    amount = form.has("shiftamt")
    name = form.type(_WORDS)
    if name is None or not form.done:
        return None
    width = int(name[1:])

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        builder = lanes.builder
        integer = element(a)
        if name.startswith("s"):
            a = builder.xor(a, builder.ashr(a, lanes.integer(integer, width - 1)))
        zeros = lanes.resize(_leading_zeros(lanes, a), I32)
        # Without .shiftamt no special case is needed: ctlz of zero is the width, which gives -1.
        if not amount:
            return builder.sub(lanes.integer(I32, width - 1), zeros)
        return lanes.select(lanes.ieq(a, lanes.integer(integer, 0)), lanes.integer(I32, -1), zeros)

    return operation("u32", (name,), emit)


def _low_byte(lanes: LaneBuilder, value: Value) -> Value:
    return lanes.builder.and_(value, lanes.integer(I32, 0xFF))


def _ones(lanes: LaneBuilder, length: Value, width: int) -> Value:
    """Return a mask of ``length`` low ones in ``width`` bits; ``length`` is any i32."""
    integer = I32 if width == 32 else I64
    one = lanes.integer(integer, 1)
    # In LLVM a shift by the width or more is poison; the select discards it.
    inside = lanes.ult(length, lanes.integer(I32, width))
    mask = lanes.builder.sub(lanes.builder.shl(one, lanes.resize(length, integer)), one)
    return lanes.select(inside, mask, lanes.integer(integer, -1))


def _shifted(lanes: LaneBuilder, shift: Callable[..., Value], value: Value, amount: Value) -> Value:
    """Return ``value`` shifted by an i32; 0 for amounts of the width or more, where LLVM's shifts are poison."""
    integer = element(value)
    inside = lanes.ult(amount, lanes.integer(I32, integer.width))
    return lanes.select(inside, shift(value, lanes.resize(amount, integer)), lanes.integer(integer, 0))


def _bfe(form: OpcodeForm) -> Operation | None:
    name = form.type(_WORDS)
    if name is None or not form.done:
        return None
    width = int(name[1:])

    def unsigned(lanes: LaneBuilder, a: Value, start: Value, length: Value) -> Value:
        start, length = _low_byte(lanes, start), _low_byte(lanes, length)
        field = _shifted(lanes, lanes.builder.lshr, a, start)
        return lanes.builder.and_(field, _ones(lanes, length, width))

    def signed(lanes: LaneBuilder, a: Value, start: Value, length: Value) -> Value:
        builder = lanes.builder
        integer = element(a)
        last = lanes.integer(I32, width - 1)
        start = lanes.call("umin", _low_byte(lanes, start), last)
        length = _low_byte(lanes, length)
        # A field that extends beyond the highest bit is filled with that bit, and has it as its sign.
        field = builder.ashr(a, lanes.resize(start, integer))
        spare = builder.sub(lanes.integer(I32, width), lanes.call("umin", length, lanes.integer(I32, width)))
        up = lanes.resize(lanes.call("umin", spare, last), integer)
        extended = builder.ashr(builder.shl(field, up), up)
        return lanes.select(lanes.ieq(length, lanes.integer(I32, 0)), lanes.integer(integer, 0), extended)

    return operation(name, (name, "u32", "u32"), signed if name.startswith("s") else unsigned)


def _bfi(form: OpcodeForm) -> Operation | None:
    name = form.type(("b32", "b64"))
    if name is None or not form.done:
        return None
    width = int(name[1:])

    def emit(lanes: LaneBuilder, a: Value, b: Value, start: Value, length: Value) -> Value:
        builder = lanes.builder
        start, length = _low_byte(lanes, start), _low_byte(lanes, length)
        mask = _shifted(lanes, builder.shl, _ones(lanes, length, width), start)
        inserted = _shifted(lanes, builder.shl, a, start)
        return builder.xor(b, builder.and_(builder.xor(b, inserted), mask))

    return operation(name, (name, name, "u32", "u32"), emit)


def _bmsk(form: OpcodeForm) -> Operation | None:
    """Resolve ``bmsk``: ``length`` ones from bit ``start`` on."""
    mode = form.take("clamp", "wrap")
    if mode is None or form.type(("b32",)) is None or not form.done:
        return None

    def emit(lanes: LaneBuilder, start: Value, length: Value) -> Value:
        if mode == "wrap":
            start, length = (lanes.builder.and_(value, lanes.integer(I32, 31)) for value in (start, length))
        return _shifted(lanes, lanes.builder.shl, _ones(lanes, length, 32), start)

    return operation("b32", ("u32", "u32"), emit)


def _szext(form: OpcodeForm) -> Operation | None:
    """Resolve ``szext``: sign or zero extension of the low ``length`` bits."""
    mode, name = form.take("clamp", "wrap"), form.type(("u32", "s32"))
    if mode is None or name is None or not form.done:
        return None

    def emit(lanes: LaneBuilder, a: Value, length: Value) -> Value:
        builder = lanes.builder
        if mode == "wrap":
            length = builder.and_(length, lanes.integer(I32, 31))
        if name == "u32":
            return builder.and_(a, _ones(lanes, length, 32))
        full = lanes.integer(I32, 32)
        spare = builder.sub(full, lanes.call("umin", length, full))
        up = lanes.call("umin", spare, lanes.integer(I32, 31))
        extended = builder.ashr(builder.shl(a, up), up)
        return lanes.select(lanes.ieq(length, lanes.integer(I32, 0)), lanes.integer(I32, 0), extended)

    return operation(name, (name, "u32"), emit)


def _fns(form: OpcodeForm) -> Operation | None:
    """Resolve ``fns``: position of the n-th 1 from ``base`` upwards (n > 0) or downwards (n < 0).

    With n = 0 it is ``base`` itself, if that bit is 1. The result is 0xffffffff if there is no such bit.
    """
    if form.type(("b32",)) is None or not form.done:
        return None

    def nth(lanes: LaneBuilder, mask: Value, rank: Value) -> Value:
        """Return the position of the 1 that has ``rank`` ones below it, by binary search on population counts."""
        builder = lanes.builder
        position = lanes.integer(I32, 0)
        for half in (16, 8, 4, 2, 1):
            low = builder.and_(builder.lshr(mask, position), lanes.integer(I32, (1 << half) - 1))
            count = lanes.call("ctpop", low)
            above = builder.icmp_unsigned(">=", rank, count)
            rank = lanes.select(above, builder.sub(rank, count), rank)
            position = lanes.select(above, builder.add(position, lanes.integer(I32, half)), position)
        return position

    def emit(lanes: LaneBuilder, mask: Value, base: Value, offset: Value) -> Value:
        builder = lanes.builder
        zero, one, last = (lanes.integer(I32, number) for number in (0, 1, 31))
        missing = lanes.integer(I32, -1)
        base = builder.and_(base, last)
        down = builder.icmp_signed("<", offset, zero)
        # Searching downwards is searching upwards in the bit-reversed word.
        word = lanes.select(down, lanes.call("bitreverse", mask), mask)
        start = lanes.select(down, builder.sub(last, base), base)
        count = lanes.select(down, builder.sub(zero, offset), lanes.call("umax", offset, one))
        word = builder.and_(word, builder.shl(missing, start))
        found = nth(lanes, word, builder.sub(count, one))
        enough = builder.icmp_unsigned("<=", count, lanes.call("ctpop", word))
        # With n = 0 the first 1 found must be the base itself.
        itself = builder.or_(builder.icmp_unsigned("!=", offset, zero), lanes.ieq(found, base))
        position = lanes.select(down, builder.sub(last, found), found)
        return lanes.select(builder.and_(enough, itself), position, missing)

    return operation("b32", ("b32", "b32", "s32"), emit)


# Modes of prmt: four selectors of four bits each, least significant byte first, for each value of c's low two bits.
_PRMT_MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def _prmt(form: OpcodeForm) -> Operation | None:
    """Resolve ``prmt``: four of the eight bytes of ``b:a``; a selector's top bit replicates the byte's sign bit."""
    word = form.type(("b32",))
    mode = form.take(*_PRMT_MODES)
    if word is None or not form.done:
        return None
    known = form.immediates[-1]

    def constant(lanes: LaneBuilder, a: Value, b: Value, selector: int) -> Value:
        builder = lanes.builder
        result = lanes.integer(I32, 0)
        for index in range(4):
            nibble = selector >> (4 * index) & 0xF
            source = b if nibble & 4 else a
            byte = lanes.resize(builder.lshr(source, lanes.integer(I32, 8 * (nibble & 3))), I8)
            if nibble & 8:
                byte = builder.ashr(byte, lanes.integer(I8, 7))
            result = builder.or_(result, builder.shl(lanes.resize(byte, I32), lanes.integer(I32, 8 * index)))
        return result

    def variable(lanes: LaneBuilder, a: Value, b: Value, selector: Value) -> Value:
        builder = lanes.builder
        both = builder.or_(lanes.resize(a, I64), builder.shl(lanes.resize(b, I64), lanes.integer(I64, 32)))
        result = lanes.integer(I32, 0)
        for index in range(4):
            nibble = builder.lshr(selector, lanes.integer(I32, 4 * index))
            amount = builder.shl(builder.and_(nibble, lanes.integer(I32, 7)), lanes.integer(I32, 3))
            byte = lanes.resize(builder.lshr(both, lanes.resize(amount, I64)), I8)
            sign = builder.icmp_unsigned("!=", builder.and_(nibble, lanes.integer(I32, 8)), lanes.integer(I32, 0))
            byte = lanes.select(sign, builder.ashr(byte, lanes.integer(I8, 7)), byte)
            result = builder.or_(result, builder.shl(lanes.resize(byte, I32), lanes.integer(I32, 8 * index)))
        return result

    def emit(lanes: LaneBuilder, a: Value, b: Value, selector: Value) -> Value:
        if known is not None:
            return constant(lanes, a, b, known if mode is None else _PRMT_MODES[mode][known & 3])
        if mode is not None:
            builder = lanes.builder
            entries = sum(entry << (16 * index) for index, entry in enumerate(_PRMT_MODES[mode]))
            place = builder.shl(builder.and_(selector, lanes.integer(I32, 3)), lanes.integer(I32, 4))
            selector = lanes.resize(builder.lshr(lanes.integer(I64, entries), lanes.resize(place, I64)), I32)
        return variable(lanes, a, b, selector)

    return operation("b32", ("b32", "b32", "b32"), emit)


RESOLVERS: dict[str, Resolver] = {
    "popc": _popc,
    "clz": _clz,
    "brev": _brev,
    "bfind": _bfind,
    "bfe": _bfe,
    "bfi": _bfi,
    "bmsk": _bmsk,
    "szext": _szext,
    "fns": _fns,
    "prmt": _prmt,
}
