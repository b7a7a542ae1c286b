"""Epochs of the single lanes that a merged record of the race detector stands for.

A record of several lanes of one warp has the latest of their epochs. After a synchronisation with a partial mask that
is too coarse: a lane that read before it is ordered before the mask's members, one that read later is not. Where such a
synchronisation lies between the accesses of a record, each lane's epoch is kept in a table by the record's address. The
table is direct-mapped: a record whose entry another one has taken is compared by its latest epoch, as one access.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.race_records import MEMBER_ENTRIES, Epoch, MemberEpochs
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64

_LANES = ir.VectorType(I32, 32)


def add_unsynchronised_lanes(module: ir.Module) -> Value:
    """Add ``race_unsynchronised_lanes(ctx, lane, record, epoch, lanes) -> i32``.

    Returns those of ``lanes`` whose accesses partial-mask synchronisation does not order before ``lane``. ``record`` is
    the address of the record's epoch, ``epoch`` its value.
    """
    function, b = t.new_function(module, "race_unsynchronised_lanes", I32, [POINTER, I32, I64, I32, I32])
    ctx, lane, record, epoch, lanes = function.args
    clock = t.load(b, ctx, b.add(i64(Warp.LANE_CLOCKS), b.shl(b.zext(lane, I64), i64(7))), _LANES, align=4)
    known = _known(b, _entry(b, ctx, record), record, epoch)
    unknown = b.icmp_unsigned(">=", _or_splat(b, known, epoch), clock)
    # The lane's own bit is removed: program order orders its earlier accesses, whatever its clock.
    others = b.and_(lanes, b.not_(b.shl(i32(1), lane)))
    b.ret(b.and_(others, b.bitcast(unknown, I32)))
    return function


def add_join_members(module: ir.Module) -> Value:
    """Add ``race_join_members(ctx, lane, record, epoch, lanes, joined)``: store each lane's epoch of a merged record.

    ``epoch`` and ``lanes`` are those of the record before ``lane`` joins it now, ``joined`` is its epoch afterwards.
    """
    function, b = t.new_function(module, "race_join_members", VOID, [POINTER, I32, I64, I32, I32, I32])
    ctx, lane, record, epoch, lanes, joined = function.args
    entry = _entry(b, ctx, record)
    # Lanes that joined while nothing synchronised have no epoch of their own yet: the record's was theirs.
    bits = b.bitcast(lanes, ir.VectorType(I1, 32))
    clock = b.and_(epoch, i32(-Epoch.TICK))
    members = b.select(bits, _or_splat(b, _known(b, entry, record, epoch), clock), ir.Constant(_LANES, None))
    members = b.insert_element(members, load_field(b, ctx, Warp.EPOCH), lane)
    t.store(b, members, entry, MemberEpochs.EPOCHS, align=4)
    store_field(b, record, entry, MemberEpochs.RECORD)
    store_field(b, joined, entry, MemberEpochs.STAMP)
    b.ret_void()
    return function


def _entry(b: ir.IRBuilder, ctx: Value, record: Value) -> Value:
    """Return the table entry of a record, which may hold another one's epochs."""
    table = load_field(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.RACE_MEMBERS)
    # Planes are multiples of a MiB apart: the upper bits distinguish the records of one cell.
    mixed = b.xor(b.lshr(record, i64(2)), b.lshr(record, i64(17)))
    number = b.and_(mixed, i64(MEMBER_ENTRIES - 1))
    return t.at(b, table, b.mul(number, i64(MemberEpochs.SIZE)))


def _known(b: ir.IRBuilder, entry: Value, record: Value, epoch: Value) -> Value:
    """Return the lanes' epochs of a record; 0 for a lane that has the record's epoch, or where they are not stored."""
    # A row or broadcast that replaces the record does not touch the table, but gives it another epoch.
    same = b.and_(
        b.icmp_unsigned("==", load_field(b, entry, MemberEpochs.RECORD), record),
        b.icmp_unsigned("==", load_field(b, entry, MemberEpochs.STAMP), epoch),
    )
    return b.select(same, t.load(b, entry, MemberEpochs.EPOCHS, _LANES, align=4), ir.Constant(_LANES, None))


def _or_splat(b: ir.IRBuilder, known: Value, epoch: Value) -> Value:
    return b.select(b.icmp_unsigned("!=", known, ir.Constant(_LANES, None)), known, t.splat(b, epoch, 32))
