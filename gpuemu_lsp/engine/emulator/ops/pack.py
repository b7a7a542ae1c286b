"""``cvt`` to and from packed, 8-bit and tf32 formats, and ``cvt.pack`` (PTX ISA sections 9.7.9.21, 9.7.9.22)."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.ops import convert, ieee
from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value
from gpuemu_lsp.engine.emulator.ops.types import FLOAT, HALF, I8, I16, I32, PACKED

# Mantissa bits, exponent bias, largest finite number.
_BYTES = {"e4m3x2": (3, 7, 448.0), "e5m2x2": (2, 15, 57344.0)}
_NAN_BYTE = 0x7F


def _cvt(form: OpcodeForm) -> Operation | None:
    if form.has("pack"):
        return _integers(form)
    mode, relu, satfinite = form.take("rn", "rz", "rna"), form.has("relu"), form.has("satfinite")
    ftz = form.has("ftz")
    to = form.type(("f16x2", "bf16x2", "e4m3x2", "e5m2x2", "tf32"))
    source = form.type(("f32", "f16x2", "e4m3x2", "e5m2x2"))
    if mode is None or to is None or source is None or not form.done or ftz:
        return None
    if to == "tf32":
        return _tf32(mode, relu, satfinite) if source == "f32" else None
    if mode == "rna":
        return None
    if to in ("f16x2", "bf16x2") and source == "f32":
        return _pair_of_halves(to, mode, relu, satfinite)
    if mode != "rn":
        return None
    if to in _BYTES and satfinite and source in ("f32", "f16x2"):
        return _to_bytes(to, source, relu)
    if to == "f16x2" and source in _BYTES and not satfinite:
        return _from_bytes(source, relu)
    return None


def _pair_of_halves(to: str, mode: str, relu: bool, satfinite: bool) -> Operation:
    """Resolve two f32 to a packed type; the first operand becomes the upper half."""
    unit = PACKED[to]

    def emit(lanes: LaneBuilder, a: Value, b: Value) -> Value:
        low, high = (convert.rounded_to(lanes, value, unit, mode, relu, satfinite) for value in (b, a))
        return lanes.joined(low, high)

    return operation(to, ("f32", "f32"), emit)


def _tf32(mode: str, relu: bool, satfinite: bool) -> Operation | None:
    """Resolve f32 to tf32, which keeps 10 of 23 mantissa bits; ``.rna`` rounds ties away from zero."""
    if relu and mode == "rna":
        return None

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        builder = lanes.builder
        if relu:
            a = ieee.rectify(lanes, a)
        # Adding to the pattern rounds the magnitude: half a unit for ties away, just under half plus the last bit kept
        # for ties to even.
        pattern = lanes.bits(a, I32)
        if mode == "rna":
            pattern = builder.add(pattern, lanes.integer(I32, 0x1000))
        elif mode == "rn":
            odd = builder.and_(builder.lshr(pattern, lanes.integer(I32, 13)), lanes.integer(I32, 1))
            pattern = builder.add(builder.add(pattern, lanes.integer(I32, 0xFFF)), odd)
        pattern = builder.and_(pattern, lanes.integer(I32, 0xFFFFE000))
        if satfinite:
            sign = builder.and_(pattern, lanes.integer(I32, 0x80000000))
            magnitude = builder.and_(pattern, lanes.integer(I32, 0x7FFFFFFF))
            pattern = builder.or_(sign, lanes.call("umin", magnitude, lanes.integer(I32, 0x7F7FE000)))
        nan = lanes.fcmp("uno", a, a)
        canonical = lanes.integer(I32, ieee.CANONICAL_NAN["f32"])
        if mode == "rna" and not satfinite:
            # Integer instructions on all GPUs, which truncate a NaN: ptxas folds 0x7fc12345 to 0x7fc12000.
            canonical = builder.and_(lanes.bits(a, I32), lanes.integer(I32, 0xFFFFE000))
        return lanes.select(nan, canonical, pattern)

    return operation("tf32", ("f32",), emit)


def _to_bytes(to: str, source: str, relu: bool) -> Operation:
    """Resolve two numbers to two 8-bit floats, saturated to the largest finite one.

    Of two f32 operands the first becomes the upper byte.
    """

    def emit(lanes: LaneBuilder, *values: Value) -> Value:
        if source == "f16x2":
            low, high = (lanes.fpext(half, FLOAT) for half in lanes.halves(values[0], HALF))
        else:
            high, low = values
        low, high = (_encoded(lanes, value, to, relu) for value in (low, high))
        builder = lanes.builder
        high = builder.shl(high, lanes.integer(I32, 8))
        return lanes.resize(builder.or_(low, high), I16)

    return operation(to, ("f16x2",) if source == "f16x2" else ("f32", "f32"), emit)


def _encoded(lanes: LaneBuilder, value: Value, to: str, relu: bool) -> Value:
    """Return an f32 rounded to an 8-bit float, in an i32."""
    mantissa, bias, largest = _BYTES[to]
    builder = lanes.builder
    if relu:
        value = ieee.rectify(lanes, value)
    sign = builder.and_(builder.lshr(lanes.bits(value, I32), lanes.integer(I32, 24)), lanes.integer(I32, 0x80))
    magnitude = lanes.call("fabs", value)
    limit = lanes.number(FLOAT, largest)
    limited = lanes.select(lanes.fcmp(">", magnitude, limit), limit, magnitude)
    pattern = lanes.bits(limited, I32)
    cut = 23 - mantissa
    odd = builder.and_(builder.lshr(pattern, lanes.integer(I32, cut)), lanes.integer(I32, 1))
    rounded = builder.add(builder.add(pattern, lanes.integer(I32, (1 << (cut - 1)) - 1)), odd)
    normal = builder.sub(builder.lshr(rounded, lanes.integer(I32, cut)), lanes.integer(I32, (127 - bias) << mantissa))
    # Adding a power of two whose unit in the last place is the smallest subnormal rounds to a multiple of that.
    smallest = 1 - bias - mantissa
    anchor = lanes.number(FLOAT, 2.0 ** (smallest + 23))
    shifted = lanes.bits(builder.fadd(limited, anchor), I32)
    subnormal = builder.sub(shifted, lanes.bits(anchor, I32))
    small = lanes.fcmp("<", limited, lanes.number(FLOAT, 2.0 ** (1 - bias)))
    result = builder.or_(sign, lanes.select(small, subnormal, normal))
    return lanes.select(lanes.fcmp("uno", value, value), lanes.integer(I32, _NAN_BYTE), result)


def _from_bytes(source: str, relu: bool) -> Operation:
    """Resolve two 8-bit floats to two f16, which is exact."""

    def decoded(lanes: LaneBuilder, byte: Value) -> Value:
        builder = lanes.builder
        wide = builder.shl(byte, lanes.integer(I16, 8))
        # e5m2 is the upper byte of f16.
        if source == "e5m2x2":
            half = lanes.bits(wide, HALF)
        else:
            # Read as f16, e4m3 has a bias of 15 instead of 7: scale by 2**8, which is exact for subnormals, too.
            sign = builder.and_(wide, lanes.integer(I16, 0x8000))
            magnitude = builder.and_(byte, lanes.integer(I16, 0x7F))
            scaled = lanes.bits(builder.or_(sign, builder.shl(magnitude, lanes.integer(I16, 7))), HALF)
            product = builder.fmul(lanes.fpext(scaled, FLOAT), lanes.number(FLOAT, 256.0))
            nan = lanes.ieq(magnitude, lanes.integer(I16, _NAN_BYTE))
            half = lanes.select(nan, ieee.constant_bits(lanes, "f16", 0x7FFF), lanes.fptrunc(product, HALF))
        return ieee.rectify(lanes, half) if relu else half

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        low = lanes.builder.and_(a, lanes.integer(I16, 0xFF))
        high = lanes.builder.lshr(a, lanes.integer(I16, 8))
        return lanes.joined(decoded(lanes, low), decoded(lanes, high))

    return operation("f16x2", (source,), emit)


def _integers(form: OpcodeForm) -> Operation | None:
    """Resolve ``cvt.pack.sat``: two s32, clamped and packed.

    Two bytes become the lower half of the result, and the lower half of the third operand its upper half.
    """
    saturating = form.has("sat")
    to, source, rest = form.type(("s16", "u16", "s8", "u8")), form.type(("s32",)), form.type(("b32",))
    if not saturating or to is None or source is None or not form.done:
        return None
    if to in ("s8", "u8") and rest is None:
        return None
    if to in ("s16", "u16") and rest is not None:
        return None
    part = I8 if to in ("s8", "u8") else I16

    def emit(lanes: LaneBuilder, a: Value, b: Value, *above: Value) -> Value:
        builder = lanes.builder
        high, low = (lanes.resize(lanes.resize(convert.clamp(lanes, v, to, True), part), I32) for v in (a, b))
        packed = builder.or_(low, builder.shl(high, lanes.integer(I32, part.width)))
        if not above:
            return packed
        return builder.or_(packed, builder.shl(above[0], lanes.integer(I32, 16)))

    return operation("b32", ("s32", "s32", "b32") if rest else ("s32", "s32"), emit)


RESOLVERS: dict[str, Resolver] = {"cvt": _cvt}
