"""Warp collectives: shuffles, votes, matches, reductions (PTX ISA sections 9.7.9.6 and 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen import ir_tools as t
from gpuemu_lsp.engine.emulator.codegen.control import Control
from gpuemu_lsp.engine.emulator.codegen.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.ir_tools import I1, I32, I64, Value, i32, i64
from gpuemu_lsp.engine.emulator.codegen.linked import RUNTIME
from gpuemu_lsp.engine.emulator.codegen.races import emit_meeting
from gpuemu_lsp.engine.emulator.layout import Kind, Warp
from gpuemu_lsp.engine.emulator.operands import elements, flat
from gpuemu_lsp.engine.emulator.shapes import WARP
from gpuemu_lsp.engine.ptx.model import Instruction, Operand, Pair, Register

_REDUCTIONS = {"add", "min", "max", "and", "or", "xor"}


def supported(instruction: Instruction) -> bool:
    """Return whether a collective can be run."""
    opcode, modifiers = instruction.opcode, set(instruction.modifiers)
    if opcode == "shfl":
        return "b32" in modifiers
    if opcode == "redux":
        return bool(modifiers & _REDUCTIONS) and bool(modifiers & {"u32", "s32", "b32"}) and "f32" not in modifiers
    return opcode in ("vote", "match", "elect", "bar", "barrier")


def emit_collective(e: Emitter, control: Control, instruction: Instruction) -> None:
    """Write a collective, the first instruction of its block."""
    members = _members(e, instruction)
    control.gather_lanes(e.number, members)
    _check_caller(e, instruction)
    emit_meeting(e, _mask_operand(instruction))
    _EMIT.get(instruction.opcode, _nothing)(e, instruction)


def emit_activemask(e: Emitter, instruction: Instruction) -> None:
    """Write ``activemask.b32``."""
    name = _register(instruction.operands[0])
    for part in e.result_parts(name):
        e.put(name, part, e.mask32(), "b32")


def _register(operand: Operand) -> str:
    return operand.name if isinstance(operand, Register) else "_"


def _mask_operand(instruction: Instruction) -> Operand:
    """Return the operand that names the members: the last one of all collectives."""
    return instruction.operands[-1]


def _members(e: Emitter, instruction: Instruction) -> Value:
    """Return every lane that some running lane names, as bits."""
    operand = _mask_operand(instruction)
    if e.shape(operand).uniform:
        return e.scalar_operand(operand, "b32", 0)
    b = e.builder
    result = None
    for part in range(e.parts):
        masks = e.vector_operand(operand, "b32", part)
        active = e.active(part)
        if active is not None:
            masks = b.select(active, masks, t.splat(b, i32(0), e.lanes))
        one = t.intrinsic(b, f"llvm.vector.reduce.or.{t.mangled(masks.type)}", I32, [masks])
        result = one if result is None else b.or_(result, one)
    return result


def _lane_bits(e: Emitter, part: int) -> Value:
    values = [1 << (part * e.lanes + lane) for lane in range(e.lanes)]
    return ir.Constant(ir.VectorType(I32, e.lanes), values)


def _lane_numbers(e: Emitter, part: int) -> Value:
    return ir.Constant(ir.VectorType(I32, e.lanes), [part * e.lanes + lane for lane in range(e.lanes)])


def _check_caller(e: Emitter, instruction: Instruction) -> None:
    """Report lanes that call a collective whose mask leaves them out."""
    operand = _mask_operand(instruction)
    if e.constant(operand) in (-1, 0xFFFFFFFF):
        return
    b = e.builder
    bad = []
    for part in range(e.parts):
        masks = e.vector_operand(operand, "b32", part)
        left_out = b.icmp_unsigned("==", b.and_(masks, _lane_bits(e, part)), t.splat(b, i32(0), e.lanes))
        active = e.active(part)
        bad.append(left_out if active is None else b.and_(left_out, active))
    _report(e, bad, 1)


def _report(e: Emitter, bad: list[Value], reason: int) -> None:
    """Record an event for the first of the ``bad`` lanes, if any. ``reason`` goes into the record's size field."""
    report_lanes(e, e.any(bad), e.bits(bad), reason)


def report_lanes(e: Emitter, condition: Value, lanes: Value, reason: int) -> None:
    """Record an event for the first of ``lanes`` (bits, not none) if ``condition`` holds."""
    b = e.builder
    known = e.snapshot()
    some, none = e.unlikely(condition, "mask")
    b.position_at_end(some)
    lane = t.intrinsic(b, "llvm.cttz.i32", I32, [lanes, ir.Constant(I1, 1)])
    arguments = [e.context, i32(e.site), i32(Kind.WARP_MASK), lane, i64(0), i32(reason), i32(0)]
    t.call_address(b, RUNTIME.address("event"), t.VOID, arguments)
    b.branch(none)
    b.position_at_end(none)
    e.restore(known)


# ---- shuffles --------------------------------------------------------------------------------------------------------


def _shuffle(e: Emitter, instruction: Instruction) -> None:
    """``shfl.sync.mode.b32 d|p, a, b, c, membermask`` (section 9.7.9.6)."""
    target, source, lane, clamp = instruction.operands[:4]
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    values = [e.vector_operand(source, "b32", part) for part in range(e.parts)]
    lane_constant, clamp_constant = e.constant(lane), e.constant(clamp)
    if lane_constant is not None and clamp_constant is not None:
        results, inside, sources = _fixed_shuffle(e, values, mode, lane_constant, clamp_constant)
    else:
        results, inside, sources = _indexed_shuffle(e, values, mode, lane, clamp)
    if e.partial or e.guard_given:
        _check_sources(e, _mask_operand(instruction), inside, sources)
    first = target.first if isinstance(target, Pair) else target
    second = target.second if isinstance(target, Pair) else None
    for part in range(e.parts):
        e.put(_register(first), part, results[part], "b32")
        if second is not None:
            e.put(_register(second), part, inside[part], "pred")


_Shuffled = tuple[list[Value], list[Value], list[Value]]


def source_lane(mode: str, lane: int, amount: int, clamp: int) -> tuple[int, bool]:
    """Return the lane a shuffle reads from, and whether that lies inside the segment; the manual's own pseudo-code."""
    bound, segment = clamp & 31, (clamp >> 8) & 31
    highest = (lane & segment) | (bound & ~segment)
    lowest = lane & segment
    amount &= 31
    if mode == "up":
        source = lane - amount
        inside = source >= highest
    elif mode == "down":
        source = lane + amount
        inside = source <= highest
    elif mode == "bfly":
        source = lane ^ amount
        inside = source <= highest
    else:
        source = lowest | (amount & ~segment)
        inside = source <= highest
    return (source, True) if inside else (lane, False)


def _fixed_shuffle(e: Emitter, values: list[Value], mode: str, amount: int, clamp: int) -> _Shuffled:
    """A shuffle whose pattern is known: vector shuffles with constant indices."""
    b = e.builder
    pattern = [source_lane(mode, lane, amount, clamp) for lane in range(WARP)]
    index_type, flag_type = ir.VectorType(I32, e.lanes), ir.VectorType(I1, e.lanes)
    results, inside, sources = [], [], []
    for part in range(e.parts):
        mine = pattern[part * e.lanes : (part + 1) * e.lanes]
        used = sorted({source // e.lanes for source, _ in mine})
        lanes = [source % e.lanes for source, _ in mine]
        result = None
        for origin in used:
            picked = b.shuffle_vector(values[origin], values[origin], ir.Constant(index_type, lanes))
            if result is None:
                result = picked
            else:
                here = ir.Constant(flag_type, [int(source // e.lanes == origin) for source, _ in mine])
                result = b.select(here, picked, result)
        results.append(result)
        inside.append(ir.Constant(flag_type, [int(ok) for _, ok in mine]))
        sources.append(ir.Constant(index_type, [source for source, _ in mine]))
    return results, inside, sources


def _indexed_shuffle(e: Emitter, values: list[Value], mode: str, lane: Operand, clamp: Operand) -> _Shuffled:
    """A shuffle whose pattern is only known when it runs: through memory, with a gather."""
    b = e.builder
    for part, value in enumerate(values):
        t.store(b, value, e.context, Warp.VALUE + part * e.lanes * 4, align=4)
    vector = ir.VectorType(I32, e.lanes)
    results, insides, sources = [], [], []

    def constant(value: int) -> Value:
        return t.splat(b, i32(value), e.lanes)

    for part in range(e.parts):
        me = _lane_numbers(e, part)
        amount = b.and_(e.vector_operand(lane, "b32", part), constant(31))
        control = e.vector_operand(clamp, "b32", part)
        segment = b.and_(b.lshr(control, constant(8)), constant(31))
        bound = b.and_(control, constant(31))
        outside_segment = b.xor(segment, constant(-1))
        lowest = b.and_(me, segment)
        highest = b.or_(lowest, b.and_(bound, outside_segment))
        if mode == "up":
            source, test = b.sub(me, amount), ">="
        elif mode == "down":
            source, test = b.add(me, amount), "<="
        elif mode == "bfly":
            source, test = b.xor(me, amount), "<="
        else:
            source, test = b.or_(lowest, b.and_(amount, outside_segment)), "<="
        inside = b.icmp_signed(test, source, highest)
        source = b.and_(b.select(inside, source, me), constant(31))
        index = b.zext(source, ir.VectorType(I64, e.lanes))
        pointers = t.pointers(b, t.at(b, e.context, Warp.VALUE), index, I32)
        name = f"llvm.masked.gather.{t.mangled(vector)}.v{e.lanes}p0"
        every = t.splat(b, ir.Constant(I1, 1), e.lanes)
        results.append(t.intrinsic(b, name, vector, [pointers, i32(4), every, ir.Constant(vector, None)]))
        insides.append(inside)
        sources.append(source)
    return results, insides, sources


def _check_sources(e: Emitter, mask: Operand, inside: list[Value], sources: list[Value]) -> None:
    """Report lanes that read from a lane which the mask names and which takes no part: its value is undefined.

    A lane outside the mask may be read from, as long as nobody uses what comes: the last warp of a ragged block does.
    """
    b = e.builder
    lanes = e.active32()
    bad = []
    for part in range(e.parts):
        shifted = b.lshr(t.splat(b, lanes, e.lanes), sources[part])
        absent = b.icmp_unsigned("==", b.and_(shifted, t.splat(b, i32(1), e.lanes)), t.splat(b, i32(0), e.lanes))
        absent = b.and_(absent, inside[part])
        if e.constant(mask) not in (-1, 0xFFFFFFFF):
            named = b.lshr(e.vector_operand(mask, "b32", part), sources[part])
            absent = b.and_(absent, b.trunc(named, absent.type))
        active = e.active(part)
        bad.append(absent if active is None else b.and_(absent, active))
    _report(e, bad, 2)


# ---- votes, reductions, matches --------------------------------------------------------------------------------------


def _predicate(e: Emitter, operand: Operand) -> Value:
    """Return a predicate operand as bits, of the active lanes only."""
    b = e.builder
    if e.shape(operand).uniform:
        flag = e.scalar_operand(operand, "pred", 0)
        bits = b.select(flag, i32(-1), i32(0))
    else:
        bits = e.bits([e.vector_operand(operand, "pred", part) for part in range(e.parts)])
    return b.and_(bits, e.active32())


def _vote(e: Emitter, instruction: Instruction) -> None:
    """``vote.sync.{all,any,uni,ballot}`` (section 9.7.13.9)."""
    target, predicate = instruction.operands[:2]
    name = _register(target)
    b = e.builder
    yes = _predicate(e, predicate)
    lanes = e.active32()
    mode = next(m for m in instruction.modifiers if m in ("all", "any", "uni", "ballot"))

    def result(members: Value, zero: Value, make: Callable[[Value], Value]) -> Value:
        present, agreeing = b.and_(make(lanes), members), b.and_(make(yes), members)
        if mode == "ballot":
            return agreeing
        if mode == "any":
            return b.icmp_unsigned("!=", agreeing, zero)
        everybody = b.icmp_unsigned("==", agreeing, present)
        return everybody if mode == "all" else b.or_(everybody, b.icmp_unsigned("==", agreeing, zero))

    _per_member_mask(e, instruction, name, "b32" if mode == "ballot" else "pred", result)


def _per_member_mask(
    e: Emitter,
    instruction: Instruction,
    name: str,
    type_: str,
    result: Callable[[Value, Value, Callable[[Value], Value]], Value],
) -> None:
    """Write a result that depends on the member mask: once where lanes agree on it, else lane by lane."""
    b = e.builder
    operand = _mask_operand(instruction)
    if e.shape(operand).uniform:
        value = result(e.scalar_operand(operand, "b32", 0), i32(0), lambda bits: bits)
        for part in e.result_parts(name):
            e.put(name, part, value, type_)
        return
    for part in e.result_parts(name):
        members = e.vector_operand(operand, "b32", part)
        zero = t.splat(b, i32(0), e.lanes)
        e.put(name, part, result(members, zero, lambda bits: t.splat(b, bits, e.lanes)), type_)


def _match(e: Emitter, instruction: Instruction) -> None:
    """``match.{any,all}.sync`` (section 9.7.13.10): which active members hold the same value."""
    target, source, members = instruction.operands[:3]
    type_ = instruction.modifiers[-1]
    b = e.builder
    size = int(type_[1:]) // 8
    values = [e.vector_operand(source, type_, part) for part in range(e.parts)]
    for part, value in enumerate(values):
        t.store(b, value, e.context, Warp.VALUE + part * e.lanes * size, align=1)
    lanes = e.active32()
    members_of = [e.vector_operand(members, "b32", part) for part in range(e.parts)]
    # The set of equal lanes, lane by lane, goes to a second scratch row.
    with t.for_lanes(b, lanes) as lane:
        offset = b.zext(b.mul(lane, i32(size)), I64)
        mine = t.load(b, e.context, b.add(offset, i64(Warp.VALUE)), ir.IntType(size * 8), align=1)
        same = e.bits([b.icmp_unsigned("==", value, t.splat(b, mine, e.lanes)) for value in values])
        t.store(b, b.and_(same, lanes), e.context, b.add(b.zext(b.shl(lane, i32(2)), I64), i64(Warp.VALUE + 256)))
    everyone = "all" in instruction.modifiers
    first = target.first if isinstance(target, Pair) else target
    for part in range(e.parts):
        place = Warp.VALUE + 256 + 4 * part * e.lanes
        same = t.load(b, e.context, place, ir.VectorType(I32, e.lanes), align=4)
        same = b.and_(same, members_of[part])
        if everyone:
            present = b.and_(t.splat(b, lanes, e.lanes), members_of[part])
            agree = b.icmp_unsigned("==", same, present)
            same = b.select(agree, same, t.splat(b, i32(0), e.lanes))
            if isinstance(target, Pair):
                e.put(_register(target.second), part, agree, "pred")
        e.put(_register(first), part, same, "b32")


_IDENTITY = {
    ("add", "u32"): 0, ("add", "s32"): 0, ("min", "u32"): -1, ("min", "s32"): 0x7FFFFFFF, ("max", "u32"): 0,
    ("max", "s32"): -0x80000000, ("and", "b32"): -1, ("or", "b32"): 0, ("xor", "b32"): 0,
}  # fmt: skip


def _redux(e: Emitter, instruction: Instruction) -> None:
    """``redux.sync.op.type d, a, membermask`` (section 9.7.13.11)."""
    target, source = instruction.operands[:2]
    b = e.builder
    type_ = instruction.modifiers[-1]
    op = next(m for m in instruction.modifiers if m in _REDUCTIONS)
    identity = i32(_IDENTITY[op, type_])
    reduce_name = op if op in ("add", "and", "or", "xor") else ("s" if type_ == "s32" else "u") + op
    values = [e.vector_operand(source, type_, part) for part in range(e.parts)]
    name = _register(target)

    def reduced(members: Value) -> Value:
        total = None
        chosen = b.and_(members, e.active32())
        for part, value in enumerate(values):
            kept = b.select(e.unpack(chosen, part), value, t.splat(b, identity, e.lanes))
            one = t.intrinsic(b, f"llvm.vector.reduce.{reduce_name}.{t.mangled(kept.type)}", I32, [kept])
            total = one if total is None else _combine(b, op, type_, total, one)
        return total

    operand = _mask_operand(instruction)
    if e.shape(operand).uniform:
        value = reduced(e.scalar_operand(operand, "b32", 0))
        for part in e.result_parts(name):
            e.put(name, part, value, type_)
        return
    for part in range(e.parts):
        t.store(b, e.vector_operand(operand, "b32", part), e.context, Warp.VALUE + 4 * part * e.lanes, align=4)
    with t.for_lanes(b, e.active32()) as lane:
        offset = b.zext(b.shl(lane, i32(2)), I64)
        members = t.load(b, e.context, b.add(offset, i64(Warp.VALUE)), I32)
        t.store(b, reduced(members), e.context, b.add(offset, i64(Warp.VALUE + 256)))
    for part in range(e.parts):
        value = t.load(b, e.context, Warp.VALUE + 256 + 4 * part * e.lanes, ir.VectorType(I32, e.lanes), align=4)
        e.put(name, part, value, type_)


def _combine(b: ir.IRBuilder, op: str, type_: str, x: Value, y: Value) -> Value:
    if op in ("min", "max"):
        compare = b.icmp_signed if type_ == "s32" else b.icmp_unsigned
        return b.select(compare("<" if op == "min" else ">", x, y), x, y)
    return {"add": b.add, "and": b.and_, "or": b.or_, "xor": b.xor}[op](x, y)


def _elect(e: Emitter, instruction: Instruction) -> None:
    """``elect.sync d|p, membermask``: one member, here the lowest that is active, is the leader."""
    target = instruction.operands[0]
    b = e.builder
    candidates = b.and_(e.active32(), _members(e, instruction))
    leader = t.intrinsic(b, "llvm.cttz.i32", I32, [candidates, ir.Constant(I1, 0)])
    names = [_register(operand) for operand in flat(elements(target))]
    for part in range(e.parts):
        if len(names) > 1:
            is_leader = b.icmp_unsigned("==", _lane_numbers(e, part), t.splat(b, leader, e.lanes))
            e.put(names[1], part, is_leader, "pred")
        e.put(names[0], part, t.splat(b, leader, e.lanes), "b32")


def _nothing(e: Emitter, instruction: Instruction) -> None:
    """``bar.warp.sync``: memory is in order, and the lanes have met."""


_EMIT: dict[str, Callable[[Emitter, Instruction], None]] = {
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
}

__all__ = ["emit_activemask", "emit_collective", "source_lane", "supported"]
