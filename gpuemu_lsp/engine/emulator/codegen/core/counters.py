"""Code that counts: executions of blocks and guarded instructions, and the addresses of every access.

Only a translation that counts has any of this; all others pay nothing for it. Numbers are made of it in
:mod:`~gpuemu_lsp.engine.emulator.launch.counting`.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import TRACE_LIMIT, LaunchRecord, SiteCounters, TracedAccess, Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, POINTER, Value, i32, i64


def count_block(e: Emitter) -> None:
    """Count that the running lanes come to the current block."""
    if e.unit.counting:
        _add(e, SiteCounters.BLOCK_WARPS)


def count_guarded(e: Emitter) -> None:
    """Count the lanes that the current instruction acts for, as its guard allows."""
    if e.unit.counting:
        _add(e, SiteCounters.GUARDED_WARPS)


def count_access(e: Emitter, row: int = Warp.ADDRESSES) -> None:
    """Note the addresses that lie in a row of the scratch space: the current instruction goes there."""
    if e.unit.counting:
        arguments = [e.context, i32(e.site), e.active_mask(), i32(row)]
        e.builder.call(_trace_function(e.module), arguments)


def _add(e: Emitter, place: int) -> None:
    b = e.builder
    lanes = e.active_mask()
    some = b.icmp_unsigned("!=", lanes, i32(0))
    table = e.launch(LaunchRecord.SITE_COUNTERS)
    start = e.site * SiteCounters.SIZE + place
    number = b.zext(t.intrinsic(b, "llvm.ctpop.i32", I32, [lanes]), I64)
    for offset, amount in ((start, b.zext(some, I64)), (start + 8, number)):
        t.store(b, b.add(t.load(b, table, offset, I64), amount), table, offset)


def _trace_function(module: ir.Module) -> Value:
    """Return ``(ctx, site, mask, row)``, which appends a :class:`Traced` record and hands over a full table."""
    known = module.globals.get("trace")
    if known is not None:
        return known
    function, b = t.new_function(module, "trace", t.VOID, [POINTER, I32, I32, I32])
    function.linkage = "internal"
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
