"""Votes, matches, reductions and leader election over the lanes of a warp (PTX ISA section 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.member_mask import lane_numbers, mask_operand, members_of
from gpuemu_lsp.engine.emulator.ir.operands import elements, flattened, register_name
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Instruction, Operand, Pair

REDUCTIONS = {"add", "min", "max", "and", "or", "xor"}


def emit_activemask(e: Emitter, instruction: Instruction) -> None:
    """Write ``activemask.b32``."""
    # The lanes that happen to be converged, as on hardware: kernels must not rely on more. Under a guard, those for
    # which it holds: ptxas emits a vote with the same guard.
    name = register_name(instruction.operands[0])
    for part in e.result_parts(name):
        e.write(name, part, e.active_mask(), "b32")


def _predicate(e: Emitter, operand: Operand) -> Value:
    """Return a predicate operand as bits, zero in inactive lanes."""
    b = e.builder
    # All or no bits for a uniform predicate, which has one value and no vector.
    if e.shape(operand).uniform:
        flag = e.scalar_operand(operand, "pred", 0)
        bits = b.select(flag, i32(-1), i32(0))
    else:
        bits = e.pack([e.vector_operand(operand, "pred", part) for part in range(e.parts)])
    return b.and_(bits, e.active_mask())


def emit_vote(e: Emitter, instruction: Instruction) -> None:
    """Write ``vote.sync.{all,any,uni,ballot}`` (section 9.7.13.9)."""
    target, predicate = instruction.operands[:2]
    name = register_name(target)
    b = e.builder
    yes = _predicate(e, predicate)
    lanes = e.active_mask()
    mode = next(m for m in instruction.modifiers if m in ("all", "any", "uni", "ballot"))

    # Written once for scalars and for vectors: the member mask may differ between lanes.
    def result(members: Value, zero: Value, make: Callable[[Value], Value]) -> Value:
        present, agreeing = b.and_(make(lanes), members), b.and_(make(yes), members)
        if mode == "ballot":
            return agreeing
        if mode == "any":
            return b.icmp_unsigned("!=", agreeing, zero)
        # Lanes that have exited do not vote: agreement is measured against the present members.
        unanimous = b.icmp_unsigned("==", agreeing, present)
        return unanimous if mode == "all" else b.or_(unanimous, b.icmp_unsigned("==", agreeing, zero))

    _per_member_mask(e, instruction, name, "b32" if mode == "ballot" else "pred", result)


def _per_member_mask(
    e: Emitter,
    instruction: Instruction,
    name: str,
    type_: str,
    result: Callable[[Value, Value, Callable[[Value], Value]], Value],
) -> None:
    """Write a result that depends on the member mask: once if the mask is uniform, else for each lane."""
    b = e.builder
    operand = mask_operand(instruction)
    if e.shape(operand).uniform:
        value = result(e.scalar_operand(operand, "b32", 0), i32(0), lambda bits: bits)
        for part in e.result_parts(name):
            e.write(name, part, value, type_)
        return
    for part in e.result_parts(name):
        members = e.vector_operand(operand, "b32", part)
        zero = t.splat(b, i32(0), e.lanes)
        e.write(name, part, result(members, zero, lambda bits: t.splat(b, bits, e.lanes)), type_)


def emit_match(e: Emitter, instruction: Instruction) -> None:
    """Write ``match.{any,all}.sync`` (section 9.7.13.10): the active members that hold the lane's value."""
    target, source, members = instruction.operands[:3]
    type_ = instruction.modifiers[-1]
    b = e.builder
    size = int(type_[1:]) // 8
    # For each active lane in turn: its value, read from memory by lane number, is compared with all others at once.
    values = [e.vector_operand(source, type_, part) for part in range(e.parts)]
    for part, value in enumerate(values):
        t.store(b, value, e.context, Warp.VALUES + part * e.lanes * size, align=1)
    lanes = e.active_mask()
    masks = [e.vector_operand(members, "b32", part) for part in range(e.parts)]
    # The results go to the second row of the scratch space, as a mask per lane.
    with t.for_lanes(b, lanes) as lane:
        offset = b.zext(b.mul(lane, i32(size)), I64)
        own = t.load(b, e.context, b.add(offset, i64(Warp.VALUES)), ir.IntType(size * 8), align=1)
        same = e.pack([b.icmp_unsigned("==", value, t.splat(b, own, e.lanes)) for value in values])
        t.store(b, b.and_(same, lanes), e.context, b.add(b.zext(b.shl(lane, i32(2)), I64), i64(Warp.VALUES + 256)))
    match_all = "all" in instruction.modifiers
    first = target.first if isinstance(target, Pair) else target
    for part in range(e.parts):
        position = Warp.VALUES + 256 + 4 * part * e.lanes
        same = t.load(b, e.context, position, ir.VectorType(I32, e.lanes), align=4)
        same = b.and_(same, masks[part])
        if match_all:
            # match.all: the mask if all present members agree, else 0, and the predicate.
            present = b.and_(t.splat(b, lanes, e.lanes), masks[part])
            agree = b.icmp_unsigned("==", same, present)
            same = b.select(agree, same, t.splat(b, i32(0), e.lanes))
            if isinstance(target, Pair):
                e.write(register_name(target.second), part, agree, "pred")
        e.write(register_name(first), part, same, "b32")


_IDENTITY = {
    ("add", "u32"): 0, ("add", "s32"): 0, ("min", "u32"): -1, ("min", "s32"): 0x7FFFFFFF, ("max", "u32"): 0,
    ("max", "s32"): -0x80000000, ("min", "f32"): 0x7FFFFFFF, ("max", "f32"): -0x80000000, ("and", "b32"): -1,
    ("or", "b32"): 0, ("xor", "b32"): 0,
}  # fmt: skip


def emit_redux(e: Emitter, instruction: Instruction) -> None:
    """Write ``redux.sync.op.type d, a, membermask`` (section 9.7.13.12)."""
    target, source = instruction.operands[:2]
    b = e.builder
    type_ = instruction.modifiers[-1]
    op = next(m for m in instruction.modifiers if m in REDUCTIONS)
    identity = i32(_IDENTITY[op, type_])
    floating = type_ == "f32"
    reduce_name = op if op in ("add", "and", "or", "xor") else ("s" if type_ != "u32" else "u") + op
    operand_type = "b32" if floating else type_
    values = [e.vector_operand(source, operand_type, part) for part in range(e.parts)]
    name = register_name(target)
    bad = i32(0)
    if floating:
        values, bad = _float_keys(e, values, identity, absolute="abs" in instruction.modifiers)
        bad = bad if "NaN" in instruction.modifiers else i32(0)

    def reduced(members: Value) -> Value:
        total = None
        # The identity in all other lanes: inactive lanes hold arbitrary values.
        chosen = b.and_(members, e.active_mask())
        for part, value in enumerate(values):
            masked = b.select(e.unpack(chosen, part), value, t.splat(b, identity, e.lanes))
            one = t.intrinsic(b, f"llvm.vector.reduce.{reduce_name}.{t.mangled(masked.type)}", I32, [masked])
            total = one if total is None else _combine(b, op, type_, total, one)
        if not floating:
            return total
        # With .NaN one NaN among the members decides, without it they are ignored; a NaN is the canonical one.
        none = b.icmp_unsigned("==", total, identity)
        invalid = b.or_(none, b.icmp_unsigned("!=", b.and_(bad, chosen), i32(0)))
        return b.select(invalid, i32(0x7FFFFFFF), _float_key(b, total))

    operand = mask_operand(instruction)
    if e.shape(operand).uniform:
        value = reduced(e.scalar_operand(operand, "b32", 0))
        for part in e.result_parts(name):
            e.write(name, part, value, operand_type)
        return
    # A varying mask: groups of lanes reduce separately, so that each lane needs a reduction of its own.
    for part in range(e.parts):
        t.store(b, e.vector_operand(operand, "b32", part), e.context, Warp.VALUES + 4 * part * e.lanes, align=4)
    # Masks and results in separate rows: later lanes still read their masks.
    with t.for_lanes(b, e.active_mask()) as lane:
        offset = b.zext(b.shl(lane, i32(2)), I64)
        members = t.load(b, e.context, b.add(offset, i64(Warp.VALUES)), I32)
        t.store(b, reduced(members), e.context, b.add(offset, i64(Warp.VALUES + 256)))
    for part in range(e.parts):
        value = t.load(b, e.context, Warp.VALUES + 256 + 4 * part * e.lanes, ir.VectorType(I32, e.lanes), align=4)
        e.write(name, part, value, operand_type)


def _float_key(b: ir.IRBuilder, bits: Value) -> Value:
    """Return a signed integer that is ordered as the f32 of some bits is, or the bits of such an integer."""
    count = bits.type.count if isinstance(bits.type, ir.VectorType) else None

    def c(value: int) -> Value:
        return i32(value) if count is None else t.splat(b, i32(value), count)

    return b.xor(bits, b.and_(b.ashr(bits, c(31)), c(0x7FFFFFFF)))


def _float_keys(e: Emitter, values: list[Value], identity: Value, *, absolute: bool) -> tuple[list[Value], Value]:
    """Return the keys of f32 values, the identity for NaN; and the lanes that have a NaN."""
    b = e.builder
    keys, numbers = [], []
    for value in values:
        magnitude = b.and_(value, t.splat(b, i32(0x7FFFFFFF), e.lanes))
        is_nan = b.icmp_unsigned(">", magnitude, t.splat(b, i32(0x7F800000), e.lanes))
        key = _float_key(b, magnitude if absolute else value)
        keys.append(b.select(is_nan, t.splat(b, identity, e.lanes), key))
        numbers.append(is_nan)
    return keys, e.pack(numbers)


def _combine(b: ir.IRBuilder, op: str, type_: str, x: Value, y: Value) -> Value:
    if op in ("min", "max"):
        compare = b.icmp_unsigned if type_ == "u32" else b.icmp_signed
        return b.select(compare("<" if op == "min" else ">", x, y), x, y)
    return {"add": b.add, "and": b.and_, "or": b.or_, "xor": b.xor}[op](x, y)


def emit_elect(e: Emitter, instruction: Instruction) -> None:
    """Write ``elect.sync d|p, membermask`` (section 9.7.13.14): the leader is the lowest active member."""
    target = instruction.operands[0]
    b = e.builder
    # Any member may be chosen; the lowest makes results reproducible.
    candidates = b.and_(e.active_mask(), members_of(e, instruction))
    leader = t.intrinsic(b, "llvm.cttz.i32", I32, [candidates, ir.Constant(I1, 0)])
    names = [register_name(operand) for operand in flattened(elements(target))]
    for part in range(e.parts):
        if len(names) > 1:
            is_leader = b.icmp_unsigned("==", lane_numbers(e, part), t.splat(b, leader, e.lanes))
            e.write(names[1], part, is_leader, "pred")
        e.write(names[0], part, t.splat(b, leader, e.lanes), "b32")
