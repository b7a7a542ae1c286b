"""``cvt`` between integer and float types (PTX ISA section 9.7.9.21); packed and 8-bit formats are in :mod:`.pack`.

Every conversion rounds once. Where no instruction rounds to the target directly, the intermediate result is rounded to
odd (see :mod:`.ieee`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ops import ieee, rounding
from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element
from gpuemu_lsp.engine.emulator.ops.types import DOUBLE, FLOAT, I16, I32, I64, INTEGERS, llvm_type

_WHOLE = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_INTEGERS = tuple(f"{kind}{bits}" for kind in "su" for bits in (8, 16, 32, 64))
_FLOATS = ("f16", "bf16", "f32", "f64")
_PRECISION = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}
_LARGEST = {"f16": 0x7BFF, "bf16": 0x7F7F}


@dataclass(frozen=True, slots=True)
class _ConversionModes:
    """Modifiers of ``cvt``: rounding to an integer, rounding mode, flushing, clamping."""

    whole: str | None
    rounding: str | None
    ftz: bool
    relu: bool
    sat: bool
    satfinite: bool


def _cvt(form: OpcodeForm) -> Operation | None:
    modes = _ConversionModes(
        form.take(*_WHOLE),
        form.take(*rounding.MODES),
        form.has("ftz"),
        form.has("relu"),
        form.has("sat"),
        form.has("satfinite"),
    )
    to, source = form.type((*_INTEGERS, *_FLOATS)), form.type((*_INTEGERS, *_FLOATS))
    if to is None or source is None or not form.done:
        return None
    if to in _INTEGERS:
        return _integer_to_integer(to, source, modes) if source in _INTEGERS else _float_to_integer(to, source, modes)
    return _integer_to_float(to, source, modes) if source in _INTEGERS else _float_to_float(to, source, modes)


def _integer_to_integer(to: str, source: str, modes: _ConversionModes) -> Operation | None:
    if modes.whole or modes.rounding or modes.ftz or modes.relu or modes.satfinite:
        return None
    signed = source.startswith("s")

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        value = clamp(lanes, a, to, signed) if modes.sat else a
        return lanes.resize(value, llvm_type(to), signed)

    return operation(to, (source,), emit)


def clamp(lanes: LaneBuilder, value: Value, to: str, signed: bool) -> Value:
    """Clamp an integer to the range of type ``to``; its width stays."""
    integer = element(value)
    width = INTEGERS[to]
    if to.startswith("s"):
        largest, smallest = (1 << (width - 1)) - 1, -(1 << (width - 1))
    else:
        largest, smallest = (1 << width) - 1, 0
    if not signed:
        return lanes.call("umin", value, lanes.integer(integer, largest)) if largest >> integer.width == 0 else value
    if smallest >= -(1 << (integer.width - 1)):
        value = lanes.call("smax", value, lanes.integer(integer, smallest))
    if largest >> (integer.width - 1) == 0:
        value = lanes.call("smin", value, lanes.integer(integer, largest))
    return value


def _float_to_integer(to: str, source: str, modes: _ConversionModes) -> Operation | None:
    """Resolve float to integer; values out of range are clamped, with or without ``.sat``."""
    if modes.whole is None or modes.rounding or modes.relu or modes.satfinite or (modes.ftz and source != "f32"):
        return None
    function = _WHOLE[modes.whole]
    # A NaN becomes 0, but if either type has 64 bits, the value with only the highest bit set.
    nan = 1 << (INTEGERS[to] - 1) if source == "f64" or INTEGERS[to] == 64 else 0

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        if modes.ftz:
            a = ieee.flush(lanes, a, source)
        value = ieee.widen(lanes, a, source)
        # The conversion itself truncates.
        if function != "trunc":
            value = lanes.call(function, value)
        converted = _truncated(lanes, value, to)
        if not nan:
            return converted
        return lanes.select(lanes.fcmp("uno", value, value), lanes.integer(llvm_type(to), nan), converted)

    return operation(to, (source,), emit)


def _truncated(lanes: LaneBuilder, value: Value, to: str) -> Value:
    """Convert an f32 or f64 to an integer, clamped to its range; NaN gives 0.

    Equivalent to ``llvm.fptosi.sat``, which LLVM scalarises on x86.
    """
    signed, width = to.startswith("s"), INTEGERS[to]
    scalar = element(value)
    above, smallest = (2.0 ** (width - 1), -(2.0 ** (width - 1))) if signed else (2.0**width, 0.0)
    zero, low = lanes.number(scalar, 0.0), lanes.number(scalar, smallest)
    inside = lanes.fcmp("<", value, lanes.number(scalar, above))
    over = lanes.fcmp(">=", value, lanes.number(scalar, above))
    # fptosi of a NaN or of a number out of range is poison: convert 0 instead.
    value = lanes.select(inside, value, zero)
    value = lanes.select(lanes.fcmp("<", value, low), low, value)
    convert = lanes.builder.fptosi if signed else lanes.builder.fptoui
    integer = I32 if width < 32 else llvm_type(to)
    result = lanes.resize(convert(value, lanes.type(integer)), llvm_type(to))
    largest = (1 << (width - signed)) - 1
    return lanes.select(over, lanes.integer(llvm_type(to), largest), result)


def _integer_to_float(to: str, source: str, modes: _ConversionModes) -> Operation | None:
    if modes.rounding is None or modes.whole or modes.ftz or modes.relu or modes.satfinite:
        return None
    signed, width = source.startswith("s"), INTEGERS[source]
    convert = "sitofp" if signed else "uitofp"
    mode = modes.rounding

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        if width < 32:
            a = lanes.resize(a, I32, signed)
        if to == "bf16":
            result = ieee.double_to_float_odd(lanes, _to_double_odd(lanes, a, convert))
        elif to == "f16":
            # Every integer for which f16 is finite is exact in f32.
            result = getattr(lanes.builder, convert)(a, lanes.type(FLOAT))
        else:
            exact = width <= _PRECISION[to]
            result = rounding.convert(lanes, convert, "rn" if exact else mode, a, llvm_type(to))
        if modes.sat:
            result = ieee.saturate(lanes, result)
        return _narrowed(lanes, result, to, mode)

    return operation(to, (source,), emit)


def _to_double_odd(lanes: LaneBuilder, value: Value, convert: str) -> Value:
    """Convert an integer to f64, rounded to odd."""
    builder = lanes.builder
    to_float = getattr(builder, convert)
    direct = to_float(value, lanes.type(DOUBLE))
    if element(value) is I32:
        return direct
    # 53 bits, the last of which is sticky: it is set if any of the bits below was.
    shift = builder.ashr if convert == "sitofp" else builder.lshr
    cut = builder.and_(value, lanes.integer(I64, 0x7FF))
    sticky = lanes.resize(builder.icmp_unsigned("!=", cut, lanes.integer(I64, 0)), I64)
    short = builder.or_(shift(value, lanes.integer(I64, 11)), sticky)
    scaled = builder.fmul(to_float(short, lanes.type(DOUBLE)), lanes.number(DOUBLE, 2048.0))
    large = lanes.fcmp(">=", lanes.call("fabs", direct), lanes.number(DOUBLE, 2.0**52))
    return lanes.select(large, scaled, direct)


def _float_to_float(to: str, source: str, modes: _ConversionModes) -> Operation | None:
    # Neither of f16 and bf16 contains the other: ptxas takes a rounding mode, or none for .rn.
    between_short = {to, source} == {"f16", "bf16"}
    narrowing = _PRECISION[to] < _PRECISION[source] or between_short
    if ((modes.rounding is None) == narrowing and not between_short) or (modes.whole and to != source):
        return None
    if modes.ftz and "f32" not in (to, source):
        return None
    short = narrowing and to in ("f16", "bf16")
    if (modes.relu or modes.satfinite) and not (short and source == "f32" and modes.rounding in ("rn", "rz")):
        return None
    if to == "bf16" and (modes.sat or (source == "bf16" and not modes.whole)):
        return None
    mode = modes.rounding or "rn"

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        if modes.ftz and source == "f32":
            a = ieee.flush(lanes, a, source)
        value = ieee.widen(lanes, a, source)
        if source in ("f16", "bf16") and to in ("f32", "f64"):
            # ptxas folds a NaN to 0x7fffffff, for f64 widened once more; between f32 and f64 it keeps the payload.
            canonical = ieee.constant_bits(lanes, "f32", ieee.CANONICAL_NAN["f32"])
            value = lanes.select(lanes.fcmp("uno", value, value), canonical, value)
        if modes.whole:
            value = lanes.call(_WHOLE[modes.whole], value)
        if modes.sat:
            value = ieee.saturate(lanes, value)
        value = rounded_to(lanes, value, to, mode, modes.relu, modes.satfinite)
        return ieee.flush(lanes, value, to) if modes.ftz and to == "f32" else value

    return operation(to, (source,), emit)


def rounded_to(
    lanes: LaneBuilder, value: Value, to: str, mode: str, relu: bool = False, satfinite: bool = False
) -> Value:
    """Convert an f32 or f64 to format ``to``, rounded once."""
    if relu:
        value = ieee.rectify(lanes, value)
    if to == "f64":
        return lanes.fpext(value, DOUBLE)
    if element(value) is DOUBLE:
        if to == "f32":
            return rounding.convert(lanes, "fptrunc", mode, value, FLOAT)
        value = ieee.double_to_float_odd(lanes, value)
    result = _narrowed(lanes, value, to, mode)
    if not (relu or satfinite):
        return result
    # With .relu and .satfinite a NaN result is the canonical NaN, whatever the payload of the operand.
    pattern = lanes.bits(result, I16)
    if satfinite:
        magnitude = lanes.builder.and_(pattern, lanes.integer(I16, 0x7FFF))
        sign = lanes.builder.and_(pattern, lanes.integer(I16, 0x8000))
        limited = lanes.call("umin", magnitude, lanes.integer(I16, _LARGEST[to]))
        pattern = lanes.builder.or_(sign, limited)
    nan = lanes.fcmp("uno", value, value)
    pattern = lanes.select(nan, lanes.integer(I16, ieee.CANONICAL_NAN[to]), pattern)
    return lanes.bits(pattern, llvm_type(to))


def _narrowed(lanes: LaneBuilder, value: Value, to: str, mode: str) -> Value:
    """Round an f32 to f16 or bf16 in ``mode``; values of other formats are returned as they are."""
    if mode == "rn" or to not in ("f16", "bf16"):
        return ieee.narrow(lanes, value, to)
    # Round to nearest, compare with the exact value, and step to the neighbour where the mode demands it.
    rounded = ieee.narrow(lanes, value, to)
    back = ieee.widen(lanes, rounded, to)
    return rounding.step_to(lanes, rounded, lanes.fcmp(">", back, value), lanes.fcmp("<", back, value), mode)


RESOLVERS: dict[str, Resolver] = {"cvt": _cvt}
