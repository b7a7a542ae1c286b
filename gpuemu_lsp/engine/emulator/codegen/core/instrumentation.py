"""Instrumentation: coverage of blocks and branch outcomes; counters of executions and a trace of accesses.

Only versions translated with it contain any of this code; others do not even test a flag.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.states import CoverageBits
from gpuemu_lsp.engine.emulator.abi.structs import TRACE_LIMIT, LaunchRecord, SiteCounters, TracedAccess, Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I8, I32, I64, POINTER, Value, i32, i64

# ---- coverage --------------------------------------------------------------------------------------------------------


def cover_block(e: Emitter) -> None:
    """Record that the current block is reached."""
    if e.unit.coverage:
        _cover(e, ir.Constant(I8, CoverageBits.REACHED))


def cover_uniform(e: Emitter, condition: Value) -> None:
    """Record the outcome of a uniform condition."""
    if e.unit.coverage:
        taken, not_taken = (ir.Constant(I8, bit) for bit in (CoverageBits.TAKEN, CoverageBits.NOT_TAKEN))
        _cover(e, e.builder.select(condition, taken, not_taken))


def cover_lanes(e: Emitter, parts: Sequence[Value]) -> None:
    """Record the outcomes of a condition, one vector of i1 per part, in the lanes that execute the block."""
    if not e.unit.coverage:
        return
    b = e.builder
    lanes, bits = e.block_mask(), e.pack(parts)
    found = ir.Constant(I8, 0)
    for some, bit in ((b.and_(bits, lanes), CoverageBits.TAKEN), (b.and_(b.not_(bits), lanes), CoverageBits.NOT_TAKEN)):
        any_lane = b.icmp_unsigned("!=", some, i32(0))
        found = b.or_(found, b.select(any_lane, ir.Constant(I8, bit), ir.Constant(I8, 0)))
    _cover(e, found)


def _cover(e: Emitter, bits: Value) -> None:
    # A plain read-modify-write: one thread of the host executes all warps of a launch.
    table = e.launch(LaunchRecord.COVERAGE)
    covered = t.load(e.builder, table, e.site, I8)
    t.store(e.builder, e.builder.or_(covered, bits), table, e.site)


# ---- counters --------------------------------------------------------------------------------------------------------


def count_block(e: Emitter) -> None:
    """Count an execution of the current block, and the lanes that execute it."""
    if e.unit.counting:
        _add(e, SiteCounters.BLOCK_WARPS)


def count_guarded(e: Emitter) -> None:
    """Count an execution of the current instruction, and the lanes in which its guard is true."""
    if e.unit.counting:
        _add(e, SiteCounters.GUARDED_WARPS)


def _add(e: Emitter, counter: int) -> None:
    b = e.builder
    lanes = e.active_mask()
    # If the guard is false in all lanes, nothing has been executed.
    some = b.icmp_unsigned("!=", lanes, i32(0))
    table = e.launch(LaunchRecord.SITE_COUNTERS)
    start = e.site * SiteCounters.SIZE + counter
    number = b.zext(t.intrinsic(b, "llvm.ctpop.i32", I32, [lanes]), I64)
    # Two counters side by side: executions by a warp, and by a lane.
    for offset, amount in ((start, b.zext(some, I64)), (start + 8, number)):
        t.store(b, b.add(t.load(b, table, offset, I64), amount), table, offset)


# ---- trace -----------------------------------------------------------------------------------------------------------


def trace_access(e: Emitter, row: int = Warp.ADDRESSES) -> None:
    """Append the addresses in a row of the scratch space to the trace, as an access of the current instruction.

    :mod:`~gpuemu_lsp.engine.emulator.launch.memory_transactions` derives memory transactions from the trace.
    """
    if e.unit.counting:
        arguments = [e.context, i32(e.site), e.active_mask(), i32(row)]
        e.builder.call(_trace_function(e.module), arguments)


def _trace_function(module: ir.Module) -> Value:
    """Return ``(context, site, mask, row)``, which appends a :class:`TracedAccess`; a full table goes to the host."""
    existing = module.globals.get("trace")
    if existing is not None:
        return existing
    function, b = t.new_function(module, "trace", t.VOID, [POINTER, I32, I32, I32])
    function.linkage = "internal"
    # Called at every access: inlined, it would multiply the time to compile.
    function.attributes.add("noinline")
    context, site, mask, row = function.args
    with b.if_then(b.icmp_unsigned("==", mask, i32(0))):
        b.ret_void()
    launch = load_pointer(b, context, Warp.LAUNCH)
    number = load_field(b, launch, LaunchRecord.TRACE_COUNT)
    record = t.at(b, load_pointer(b, launch, LaunchRecord.TRACE), b.mul(number, i64(TracedAccess.SIZE)))
    store_field(b, site, record, TracedAccess.SITE)
    store_field(b, mask, record, TracedAccess.ACTIVE_MASK)
    addresses = ir.VectorType(I64, WARP_SIZE)
    store_lanes(b, t.load(b, context, b.zext(row, I64), addresses, align=8), record, TracedAccess.ADDRESSES)
    following = b.add(number, i64(1))
    store_field(b, following, launch, LaunchRecord.TRACE_COUNT)
    with b.if_then(b.icmp_unsigned("==", following, i64(TRACE_LIMIT))):
        t.call_pointer(b, t.VOID, load_pointer(b, launch, LaunchRecord.TRACE_CALLBACK), [])
    b.ret_void()
    return function
