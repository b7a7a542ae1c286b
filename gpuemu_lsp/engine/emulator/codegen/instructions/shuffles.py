"""Shuffles: every lane reads a register of another lane (PTX ISA section 9.7.9.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.member_mask import MaskMisuse, lane_numbers, mask_operand, report_first
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.operands import register_name
from gpuemu_lsp.engine.emulator.llvm import gathers
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, Value, i32
from gpuemu_lsp.engine.emulator.llvm.text_builder import constant_vector
from gpuemu_lsp.engine.ptx.model import Instruction, Operand, Pair


def emit_shuffle(e: Emitter, instruction: Instruction) -> None:
    """Write ``shfl.sync.mode.b32 d|p, a, b, c, membermask``."""
    target, source, lane, clamp = instruction.operands[:4]
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    values = [e.vector_operand(source, "b32", part) for part in range(e.parts)]
    # __shfl_*_sync with a constant offset, as in every unrolled reduction, has a constant pattern.
    lane_constant, clamp_constant = e.constant(lane), e.constant(clamp)
    if lane_constant is not None and clamp_constant is not None:
        results, inside, sources = _fixed_shuffle(e, values, mode, lane_constant, clamp_constant)
    else:
        results, inside, sources = _indexed_shuffle(e, values, mode, lane, clamp)
    # With 32 active lanes every source is active.
    if e.partial or e.is_guarded:
        _check_sources(e, mask_operand(instruction), inside, sources)
    # d|p: p is whether the source lane was in the segment, not whether it was active.
    first = target.first if isinstance(target, Pair) else target
    second = target.second if isinstance(target, Pair) else None
    for part in range(e.parts):
        e.write(register_name(first), part, results[part], "b32")
        if second is not None:
            e.write(register_name(second), part, inside[part], "pred")


_Shuffled = tuple[list[Value], list[Value], list[Value]]


def source_lane(mode: str, lane: int, amount: int, clamp: int) -> tuple[int, bool]:
    """Return the lane that a shuffle reads, and whether it is in the segment, as in the manual's pseudocode."""
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


@dataclass(frozen=True, slots=True)
class _PartPattern:
    """What one SIMD part of a shuffle with a constant pattern reads.

    ``origins`` are the parts with sources, each with the lanes that read from it; ``lanes`` the lanes within them.
    ``inside`` and ``sources`` are as :func:`source_lane` returns them.
    """

    origins: tuple[tuple[int, Value], ...]
    lanes: Value
    inside: Value
    sources: Value


@lru_cache(maxsize=1024)
def _pattern(mode: str, amount: int, clamp: int, lanes: int) -> tuple[_PartPattern, ...]:
    """Return the pattern of a shuffle by part. There are few: reductions halve the distance."""
    pattern = [source_lane(mode, lane, amount, clamp) for lane in range(WARP_SIZE)]
    found = []
    for start in range(0, WARP_SIZE, lanes):
        own = pattern[start : start + lanes]
        used = sorted({source // lanes for source, _ in own})
        found.append(
            _PartPattern(
                tuple((part, constant_vector(I1, [int(one // lanes == part) for one, _ in own])) for part in used),
                constant_vector(I32, [source % lanes for source, _ in own]),
                constant_vector(I1, [int(ok) for _, ok in own]),
                constant_vector(I32, [source for source, _ in own]),
            )
        )
    return tuple(found)


def _fixed_shuffle(e: Emitter, values: list[Value], mode: str, amount: int, clamp: int) -> _Shuffled:
    """Write a shuffle with a constant pattern: LLVM vector shuffles, which need no memory."""
    b = e.builder
    results, parts = [], _pattern(mode, amount, clamp, e.lanes)
    for own in parts:
        # A pattern that stays within a part reads one source vector; one across parts selects between several.
        result = None
        for origin, from_origin in own.origins:
            picked = b.shuffle_vector(values[origin], values[origin], own.lanes)
            result = picked if result is None else b.select(from_origin, picked, result)
        results.append(result)
    return results, [one.inside for one in parts], [one.sources for one in parts]


def _indexed_shuffle(e: Emitter, values: list[Value], mode: str, lane: Operand, clamp: Operand) -> _Shuffled:
    """Write a shuffle whose pattern is computed at run time: through scratch memory, with a gather."""
    b = e.builder
    # All parts are stored before the first gather: a lane may read from any part.
    for part, value in enumerate(values):
        t.store(b, value, e.context, Warp.VALUES + part * e.lanes * 4, align=4)
    vector = ir.VectorType(I32, e.lanes)
    results, insides, sources = [], [], []

    def constant(value: int) -> Value:
        return t.splat(b, i32(value), e.lanes)

    for part in range(e.parts):
        me = lane_numbers(e, part)
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
        # Outside the segment a lane reads itself. The mask keeps the gather inside the row for any operands.
        source = b.and_(b.select(inside, source, me), constant(31))
        index = gathers.index_vector(b, b.shl(source, constant(2)))
        values = t.at(b, e.context, Warp.VALUES)
        results.append(gathers.gather(b, vector, values, index, gathers.all_lanes(b, e.lanes), align=4))
        insides.append(inside)
        sources.append(source)
    return results, insides, sources


def _check_sources(e: Emitter, mask: Operand, inside: list[Value], sources: list[Value]) -> None:
    """Report lanes that read from an inactive member of the mask: the value is undefined.

    Reads from lanes outside the mask are not reported, although their value is undefined, too: the last warp of a block
    whose size is not a multiple of 32 does so in many correct reductions, and does not use the value.
    """
    b = e.builder
    lanes = e.active_mask()
    bad = []
    for part in range(e.parts):
        shifted = b.lshr(t.splat(b, lanes, e.lanes), sources[part])
        absent = b.icmp_unsigned("==", b.and_(shifted, t.splat(b, i32(1), e.lanes)), t.splat(b, i32(0), e.lanes))
        # Outside the segment no other lane is read.
        absent = b.and_(absent, inside[part])
        if e.constant(mask) not in (-1, 0xFFFFFFFF):
            member = b.lshr(e.vector_operand(mask, "b32", part), sources[part])
            absent = b.and_(absent, b.trunc(member, absent.type))
        active = e.active(part)
        bad.append(absent if active is None else b.and_(absent, active))
    report_first(e, bad, MaskMisuse.INACTIVE_SOURCE)
