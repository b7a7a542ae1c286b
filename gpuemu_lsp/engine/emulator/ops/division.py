"""Integer division and remainder (PTX ISA section 9.7.1), without traps.

The manual leaves division by zero open; quotient and remainder here are all ones, as on an H100. x86 traps on it, and
on the most negative number divided by -1, so that such divisors are replaced before dividing.
"""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element
from gpuemu_lsp.engine.emulator.ops.types import DOUBLE, FLOAT

_TYPES = ("s16", "u16", "s32", "u32", "s64", "u64")


def _div(form: OpcodeForm) -> Operation | None:
    return _divide(form, False)


def _rem(form: OpcodeForm) -> Operation | None:
    return _divide(form, True)


def _divide(form: OpcodeForm, remainder: bool) -> Operation | None:
    name = form.type(_TYPES)
    if name is None or not form.done:
        return None
    signed = name.startswith("s")
    width = int(name[1:])
    divisor = form.immediates[-1]
    known = divisor is not None and divisor % (1 << width) not in (0, (1 << width) - 1)

    def emit(lanes: LaneBuilder, a: Value, b: Value) -> Value:
        builder = lanes.builder
        if known:
            # LLVM turns division by a constant into a multiplication; 0 and -1 are excluded, so it cannot trap.
            if remainder:
                return (builder.srem if signed else builder.urem)(a, b)
            return (builder.sdiv if signed else builder.udiv)(a, b)
        integer = element(a)
        zero, one = lanes.integer(integer, 0), lanes.integer(integer, 1)
        by_zero = lanes.ieq(b, zero)
        unsafe = by_zero
        if signed:
            # The most negative number by -1 wraps to itself, which is what dividing by 1 gives.
            lowest = lanes.ieq(a, lanes.integer(integer, 1 << (width - 1)))
            unsafe = builder.or_(unsafe, builder.and_(lowest, lanes.ieq(b, lanes.integer(integer, -1))))
        safe = lanes.select(unsafe, one, b)
        quotient = _quotient(lanes, a, safe, signed, width)
        result = builder.sub(a, builder.mul(quotient, safe)) if remainder else quotient
        return lanes.select(by_zero, lanes.integer(integer, -1), result)

    return operation(name, (name, name), emit)


def _quotient(lanes: LaneBuilder, a: Value, b: Value, signed: bool, width: int) -> Value:
    """Divide by a divisor that is neither zero nor makes the quotient overflow."""
    builder = lanes.builder
    if lanes.count is None or width == 64:
        return (builder.sdiv if signed else builder.udiv)(a, b)
    # x86 has no vector division of integers, but one of floats. A quotient that is not an integer differs from the next
    # one by at least 2**-2w, relatively: with more than 2w bits of precision, rounding never reaches the integer.
    scalar = lanes.type(FLOAT if width == 8 else DOUBLE)
    to_float, to_integer = (builder.sitofp, builder.fptosi) if signed else (builder.uitofp, builder.fptoui)
    return to_integer(builder.fdiv(to_float(a, scalar), to_float(b, scalar)), a.type)


RESOLVERS: dict[str, Resolver] = {"div": _div, "rem": _rem}
