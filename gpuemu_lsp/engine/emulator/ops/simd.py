"""SIMD video instructions: two 16-bit or four 8-bit values per register (PTX ISA section 9.7.18), without selectors."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.ops import convert
from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value
from gpuemu_lsp.engine.emulator.ops.types import I8, I16, I32, I128

_SHIFTS = ("vshl", "vshr")
_OPERATIONS = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")


def _one(lanes: LaneBuilder, name: str, a: Value, b: Value) -> Value:
    """Return the exact result for two narrow integers, in 32 bits."""
    builder = lanes.builder
    if name in ("vmin", "vmax"):
        return lanes.call(f"s{name[1:]}", a, b)
    if name == "vadd":
        return builder.add(a, b)
    difference = builder.sub(a, b)
    if name == "vsub":
        return difference
    return lanes.call("smax", difference, builder.sub(b, a))


def _video(form: OpcodeForm) -> Operation | None:
    name, count = form.opcode[:-1], int(form.opcode[-1])
    types = [form.type(("u32", "s32")) for _ in range(3)]
    saturating, adding = form.has("sat"), form.has("add")
    if None in types or not form.done:
        return None
    result, left, right = types
    part = I8 if count == 4 else I16
    limits = f"{'s' if result == 's32' else 'u'}{part.width}"

    def field(lanes: LaneBuilder, value: Value, index: int, kind: str | None) -> Value:
        moved = lanes.builder.lshr(value, lanes.integer(I32, index * part.width))
        return lanes.resize(lanes.resize(moved, part), I32, kind == "s32")

    def emit(lanes: LaneBuilder, a: Value, b: Value, c: Value) -> Value:
        builder = lanes.builder
        total = c if adding else lanes.integer(I32, 0)
        for index in range(count):
            one = _one(lanes, name, field(lanes, a, index, left), field(lanes, b, index, right))
            if saturating:
                one = convert.clamp(lanes, one, limits, True)
            if adding:
                # An H100 adds the results before they are cut to the width of an element.
                total = builder.add(total, one)
            else:
                moved = builder.shl(lanes.resize(lanes.resize(one, part), I32), lanes.integer(I32, index * part.width))
                total = builder.or_(total, moved)
        return total

    # Without .add the third operand is used only for elements that a mask excludes, and masks are not supported.
    return operation(result or "u32", (left or "u32", right or "u32", "u32"), emit)


def _scalar_video(form: OpcodeForm) -> Operation | None:
    """Resolve ``vadd vsub vabsdiff vmin vmax vshl vshr`` on whole registers, with an optional addition.

    The result is exact before it is saturated or cut to 32 bits (PTX ISA section 9.7.18: video instructions).
    """
    name = form.opcode
    types = [form.type(("u32", "s32")) for _ in range(3)]
    saturating = form.has("sat")
    mode = form.take("clamp", "wrap") if name in _SHIFTS else None
    adding = form.has("add")
    result, left, right = types
    if result is None or left is None or right is None or not form.done:
        return None
    if name in _SHIFTS and (mode is None or right != "u32"):
        return None

    def emit(lanes: LaneBuilder, a: Value, b: Value, *c: Value) -> Value:
        builder = lanes.builder
        # A 33-bit number shifted by 32 fits.
        x = lanes.resize(a, I128, left == "s32")
        if name in _SHIFTS:
            limit = lanes.integer(I32, 32 if mode == "clamp" else 31)
            amount = lanes.call("umin", b, limit) if mode == "clamp" else builder.and_(b, limit)
            exact = (builder.shl if name == "vshl" else builder.ashr)(x, lanes.resize(amount, I128))
        else:
            exact = _one(lanes, name, x, lanes.resize(b, I128, right == "s32"))
        if saturating:
            exact = convert.clamp(lanes, exact, result, True)
        short = lanes.resize(exact, I32)
        return builder.add(short, *c) if c else short

    return operation(result, (left, right, result) if adding else (left, right), emit)


RESOLVERS: dict[str, Resolver] = {
    **{f"{name}{count}": _video for name in _OPERATIONS for count in (2, 4)},
    **dict.fromkeys((*_OPERATIONS, *_SHIFTS), _scalar_video),
}
