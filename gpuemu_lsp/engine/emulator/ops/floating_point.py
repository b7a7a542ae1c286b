"""Floating-point arithmetic, correctly rounded in every rounding mode (PTX ISA sections 9.7.3 to 9.7.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ops import ieee, rounding
from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element, integer_of
from gpuemu_lsp.engine.emulator.ops.types import DOUBLE, FLOAT, HALF, I16, I32, I64, PACKED

_WIDE = ("f32", "f64")
_SHORT = ("f16", "f16x2", "bf16", "bf16x2")
_UNITS = {**PACKED, "f32x2": "f32"}
_LLVM = {"add": "fadd", "sub": "fsub", "mul": "fmul", "fma": "fma", "mad": "fma", "div": "fdiv", "sqrt": "sqrt"}


@dataclass(frozen=True, slots=True)
class _ArithmeticModes:
    """Modifiers of arithmetic instructions."""

    rounding: str
    ftz: bool
    sat: bool
    relu: bool


def unpacked(name: str, function: Callable[..., Value]) -> Callable[..., Value]:
    """Return ``function``, on f32, f16 or bf16 values, applied to both halves if ``name`` is a packed type."""
    if name not in _UNITS:
        return function
    scalar = {"f32": FLOAT, "f16": HALF, "bf16": I16}[_UNITS[name]]

    def emit(lanes: LaneBuilder, *values: Value) -> Value:
        # A bitcast to twice as many elements: one vector operation instead of two.
        twice = lanes.times(2)
        result = function(twice, *(twice.bits(value, scalar) for value in values))
        return lanes.bits(result, I64 if name == "f32x2" else I32)

    return emit


def _modes(form: OpcodeForm) -> _ArithmeticModes:
    mode = form.take(*rounding.MODES) or "rn"
    return _ArithmeticModes(mode, form.has("ftz"), form.has("sat"), form.has("relu"))


def _arithmetic(form: OpcodeForm) -> Operation | None:
    """Resolve ``add sub mul fma mad`` of all float types."""
    modes = _modes(form)
    name = form.type((*_WIDE, *_SHORT, "f32x2"))
    if name is None or not form.done or not _allowed(form.opcode, name, modes):
        return None
    llvm_name = _LLVM[form.opcode]
    unit = _UNITS.get(name, name)

    def emit(lanes: LaneBuilder, *values: Value) -> Value:
        if modes.ftz:
            values = tuple(ieee.flush(lanes, value, unit) for value in values)
        if unit in _WIDE:
            result = rounding.arithmetic(lanes, llvm_name, modes.rounding, *values)
        elif llvm_name == "fma":
            result = _short_fma(lanes, unit, *values)
        else:
            wide = [ieee.widen(lanes, value, unit) for value in values]
            result = ieee.narrow(lanes, getattr(lanes.builder, llvm_name)(*wide), unit)
        if modes.ftz:
            result = ieee.flush(lanes, result, unit)
        return _clamp(lanes, result, unit, modes)

    return operation(name, (name,) * (3 if llvm_name == "fma" else 2), unpacked(name, emit))


def _allowed(opcode: str, name: str, modes: _ArithmeticModes) -> bool:
    """Whether PTX has this combination of type and modifiers."""
    if name == "f64":
        return not (modes.ftz or modes.sat or modes.relu)
    if name == "f32":
        return not modes.relu
    if name == "f32x2":
        return opcode in ("add", "sub", "mul", "fma") and not (modes.sat or modes.relu)
    if opcode == "mad" or modes.rounding != "rn" or (modes.relu and (opcode != "fma" or modes.sat)):
        return False
    return not (name.startswith("bf16") and (modes.ftz or modes.sat))


def _clamp(lanes: LaneBuilder, value: Value, unit: str, modes: _ArithmeticModes) -> Value:
    if not (modes.sat or modes.relu):
        return value
    clamp = ieee.saturate if modes.sat else ieee.rectify
    if unit == "bf16":
        return ieee.narrow(lanes, clamp(lanes, ieee.widen(lanes, value, unit)), unit)
    return clamp(lanes, value)


def _short_fma(lanes: LaneBuilder, unit: str, a: Value, b: Value, c: Value) -> Value:
    """Return an f16 or bf16 fma, rounded once.

    The product is exact in f32 (f16: 22 bits between 2**-48 and 2**32) or f64 (bf16: 16 bits, twice f32's exponent
    range). The sum is rounded to odd in that format, after which rounding to the narrow format is correct.
    """
    builder = lanes.builder
    a, b, c = (ieee.widen(lanes, value, unit) for value in (a, b, c))
    if unit == "bf16":
        a, b, c = (lanes.fpext(value, DOUBLE) for value in (a, b, c))
    product = builder.fmul(a, b)
    total = builder.fadd(product, c)
    odd = ieee.to_odd(lanes, total, ieee.sum_error(lanes, product, c, total))
    if unit == "bf16":
        odd = ieee.double_to_float_odd(lanes, odd)
    return ieee.narrow(lanes, odd, unit)


def _min(form: OpcodeForm) -> Operation | None:
    return _min_or_max(form, "minimum")


def _max(form: OpcodeForm) -> Operation | None:
    return _min_or_max(form, "maximum")


def _min_or_max(form: OpcodeForm, which: str) -> Operation | None:
    """Resolve ``min`` and ``max``: IEEE 754-2019 ``minimumNumber``, with ``.NaN`` ``minimum``; -0 is less than +0."""
    ftz, nan, signed = form.has("ftz"), form.has("NaN"), form.has("xorsign")
    absolute = form.has("abs")
    name = form.type((*_WIDE, *_SHORT))
    if name is None or not form.done:
        return None
    # Three inputs (sm_100), of which .abs takes the magnitudes.
    if len(form.shape) == 4:
        return _of_three(which, ftz=ftz, nan=nan, absolute=absolute) if name == "f32" and not signed else None
    if signed != absolute:
        return None
    if (name == "f64" and (ftz or nan or signed)) or (name.startswith("bf16") and ftz):
        return None
    unit = PACKED.get(name, name)

    def emit(lanes: LaneBuilder, a: Value, b: Value) -> Value:
        if ftz:
            a, b = ieee.flush(lanes, a, unit), ieee.flush(lanes, b, unit)
        sign = None
        # .xorsign.abs: the operation on magnitudes, with the sign of the product.
        if signed:
            sign = _signs(lanes, unit, a, b)
            a, b = _magnitude(lanes, a, unit), _magnitude(lanes, b, unit)
        a, b = ieee.widen(lanes, a, unit), ieee.widen(lanes, b, unit)
        # llvm.minimumnum and llvm.minimum, not llvm.minnum, which leaves the order of -0 and +0 open.
        result = lanes.call(which if nan else f"{which}num", a, b)
        not_number = lanes.fcmp("uno", result, result) if nan else None
        result = ieee.narrow(lanes, result, unit)
        if not_number is not None:
            result = lanes.select(not_number, ieee.constant_bits(lanes, unit, ieee.CANONICAL_NAN[unit]), result)
        return result if sign is None else _with_sign(lanes, result, sign, unit)

    return operation(name, (name, name), unpacked(name, emit))


def _of_three(which: str, *, ftz: bool, nan: bool, absolute: bool) -> Operation:
    """Return ``min.f32`` or ``max.f32`` of three inputs."""

    def emit(lanes: LaneBuilder, *values: Value) -> Value:
        values = tuple(ieee.flush(lanes, value, "f32") for value in values) if ftz else values
        values = tuple(_magnitude(lanes, value, "f32") for value in values) if absolute else values
        name = which if nan else f"{which}num"
        result = lanes.call(name, lanes.call(name, values[0], values[1]), values[2])
        canonical = ieee.constant_bits(lanes, "f32", ieee.CANONICAL_NAN["f32"])
        return lanes.select(lanes.fcmp("uno", result, result), canonical, result)

    return operation("f32", ("f32",) * 3, emit)


def _pattern(lanes: LaneBuilder, value: Value, unit: str) -> Value:
    return value if unit == "bf16" else lanes.bits(value, integer_of(element(value)))


def _as_unit(lanes: LaneBuilder, pattern: Value, unit: str) -> Value:
    return pattern if unit == "bf16" else lanes.bits(pattern, {"f16": HALF, "f32": FLOAT, "f64": DOUBLE}[unit])


def _magnitude(lanes: LaneBuilder, value: Value, unit: str) -> Value:
    pattern = _pattern(lanes, value, unit)
    mask = lanes.integer(element(pattern), ieee.sign_bit(unit) - 1)
    return _as_unit(lanes, lanes.builder.and_(pattern, mask), unit)


def _signs(lanes: LaneBuilder, unit: str, a: Value, b: Value) -> Value:
    """Return the sign bit of the product of two values, as a bit pattern."""
    either = lanes.builder.xor(_pattern(lanes, a, unit), _pattern(lanes, b, unit))
    return lanes.builder.and_(either, lanes.integer(element(either), ieee.sign_bit(unit)))


def _with_sign(lanes: LaneBuilder, value: Value, sign: Value, unit: str) -> Value:
    return _as_unit(lanes, lanes.builder.or_(_pattern(lanes, value, unit), sign), unit)


def _neg(form: OpcodeForm) -> Operation | None:
    return _sign_change(form)


def _abs(form: OpcodeForm) -> Operation | None:
    return _sign_change(form)


def _sign_change(form: OpcodeForm) -> Operation | None:
    ftz = form.has("ftz")
    name = form.type((*_WIDE, *_SHORT))
    if name is None or not form.done or (ftz and name not in ("f32", "f16", "f16x2")):
        return None
    unit = PACKED.get(name, name)
    negate = form.opcode == "neg"

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        a = ieee.flush(lanes, a, unit) if ftz else a
        if unit not in _WIDE:
            # In half precision a NaN becomes the canonical one, and not of the other sign (ptxas folds 0x7fff).
            wide = ieee.widen(lanes, a, unit)
            canonical = ieee.constant_bits(lanes, unit, ieee.CANONICAL_NAN[unit])
            return lanes.select(lanes.fcmp("uno", wide, wide), canonical, _changed_sign(lanes, a, unit, negate))
        return _changed_sign(lanes, a, unit, negate)

    return operation(name, (name,), unpacked(name, emit))


def _changed_sign(lanes: LaneBuilder, value: Value, unit: str, negate: bool) -> Value:
    """Return a value with its sign bit inverted, or cleared."""
    if not negate:
        return _magnitude(lanes, value, unit)
    pattern = _pattern(lanes, value, unit)
    return _as_unit(lanes, lanes.builder.xor(pattern, lanes.integer(element(pattern), ieee.sign_bit(unit))), unit)


def _copysign(form: OpcodeForm) -> Operation | None:
    name = form.type(_WIDE)
    if name is None or not form.done:
        return None
    return operation(name, (name, name), lambda lanes, a, b: lanes.call("copysign", b, a))


def _testp(form: OpcodeForm) -> Operation | None:
    question = form.take("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    name = form.type(_WIDE)
    if question is None or name is None or not form.done:
        return None

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        magnitude = _magnitude(lanes, a, name)
        scalar = element(a)
        infinity, tiny = lanes.number(scalar, float("inf")), lanes.number(scalar, ieee.TINY[scalar])
        if question in ("number", "notanumber"):
            return lanes.fcmp("ord" if question == "number" else "uno", a, a)
        if question == "infinite":
            return lanes.fcmp("==", magnitude, infinity)
        if question == "subnormal":
            positive = lanes.fcmp(">", magnitude, lanes.number(scalar, 0.0))
            return lanes.builder.and_(positive, lanes.fcmp("<", magnitude, tiny))
        finite = lanes.fcmp("<", magnitude, infinity)
        if question == "finite":
            return finite
        # Zeros of both signs are normal numbers here (section 9.7.3.1).
        large = lanes.builder.or_(
            lanes.fcmp(">=", magnitude, tiny), lanes.fcmp("==", magnitude, lanes.number(scalar, 0.0))
        )
        return lanes.builder.and_(finite, large)

    return operation("pred", (name,), emit)


def _quotient(form: OpcodeForm) -> Operation | None:
    """Resolve ``div rcp sqrt`` with a rounding mode."""
    mode = form.take(*rounding.MODES)
    ftz = form.has("ftz")
    name = form.type(_WIDE)
    if mode is None or name is None or not form.done or (ftz and name == "f64"):
        return None
    opcode = form.opcode

    def emit(lanes: LaneBuilder, *values: Value) -> Value:
        if ftz:
            values = tuple(ieee.flush(lanes, value, name) for value in values)
        if opcode == "sqrt":
            result = rounding.arithmetic(lanes, "sqrt", mode, *values)
        else:
            if opcode == "rcp":
                values = (lanes.number(element(values[0]), 1.0), *values)
            result = rounding.arithmetic(lanes, "fdiv", mode, *values)
        return ieee.flush(lanes, result, name) if ftz else result

    return operation(name, (name, name) if opcode == "div" else (name,), emit)


RESOLVERS: dict[str, Resolver] = {
    "add": _arithmetic,
    "sub": _arithmetic,
    "mul": _arithmetic,
    "fma": _arithmetic,
    "mad": _arithmetic,
    "min": _min,
    "max": _max,
    "neg": _neg,
    "abs": _abs,
    "copysign": _copysign,
    "testp": _testp,
    "div": _quotient,
    "rcp": _quotient,
    "sqrt": _quotient,
}
