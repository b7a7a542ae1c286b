"""``mbarrier`` objects (PTX ISA section 9.7.13.15) as a function of the shared runtime.

PTX leaves the 64 bits of such an object open. Here they are, from the lowest: 20 bits of arrivals still missing in
this phase, 20 of arrivals expected in every phase, 21 of transactions still missing (signed), 3 of the phase's number.
A state, as ``arrive`` gives it, is the object as it was before.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer
from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.shadow import shade
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64, load, store

NAMES = ("mbarrier",)

OPERATIONS: Final = {
    name: number
    for number, name in enumerate(
        ("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test", "parity")
    )
}
"""What the function can be asked for; ``arrive`` with a second operand also expects transactions."""

_STORE = 1
_COUNT = (1 << 20) - 1
_EXPECTED, _TRANSACTIONS, _PHASE = 20, 40, 61
_TX_BITS = 21


def add_mbarrier(module: ir.Module, check: Value, race_lane: Value, race_shift: int) -> None:
    """Add ``mbarrier(ctx, site, lanes, operation, flags)``; ``flags`` from bit ``race_shift`` on are ``race_lane``'s.

    Addresses lie in ``ADDRESS``, the operand in ``VALUE`` and transactions in its second row; the third row gets the
    object as it was, or for ``test`` and ``parity`` whether the phase is over.
    """
    function, b = t.new_function(module, "mbarrier", VOID, [POINTER, I32, I32, I32, I32])
    ctx, site, lanes, operation, flags = function.args
    races = b.lshr(flags, i32(race_shift))
    complete = _add_complete(module)

    def asked(*names: str) -> Value:
        found = [b.icmp_unsigned("==", operation, i32(OPERATIONS[name])) for name in names]
        result = found[0]
        for one in found[1:]:
            result = b.or_(result, one)
        return result

    with t.for_lanes(b, lanes) as lane:
        wide = b.zext(lane, I64)
        place = b.mul(wide, i64(8))
        address = load(b, ctx, b.add(place, i64(Warp.ADDRESSES)), I64)
        operand = load(b, ctx, b.add(place, i64(Warp.VALUES)), I64)
        transactions = load(b, ctx, b.add(place, i64(Warp.VALUES + REGISTER_BYTES)), I64)
        result = b.add(place, i64(Warp.VALUES + 2 * REGISTER_BYTES))
        store(b, i64(0), ctx, result)

        def may(access: int, b: ir.IRBuilder = b, lane: Value = lane, address: Value = address) -> Value:
            return b.call(check, [ctx, site, lane, address, i32(8), i32(8), b.or_(flags, i32(access))])

        first = b.select(asked("init", "inval"), ir.Constant(I1, 1), ir.Constant(I1, 0))
        readable = b.alloca(I1)
        b.store(first, readable)
        with b.if_then(b.not_(first)):
            b.store(may(0), readable)
        with b.if_then(b.load(readable)), b.if_then(may(_STORE)):
            with b.if_then(b.icmp_unsigned("!=", races, i32(0))):
                b.call(race_lane, [ctx, site, lane, address, i32(8), races, i64(0)])
            old = load(b, address, 0, I64)
            waiting = asked("test", "parity")
            with b.if_then(waiting):
                phase = b.lshr(old, i64(_PHASE))
                other = b.icmp_unsigned("!=", phase, b.lshr(operand, i64(_PHASE)))
                parity = b.icmp_unsigned("!=", b.and_(phase, i64(1)), b.and_(operand, i64(1)))
                over = b.select(asked("parity"), parity, other)
                store(b, b.zext(over, I64), ctx, result)
            with b.if_then(asked("init")):
                count = b.and_(operand, i64(_COUNT))
                store(b, b.or_(count, b.shl(count, i64(_EXPECTED))), address, 0)
                shade(b, address, i32(8), 255, Shadow.INITIALISED | Shadow.WRITTEN)
            with b.if_then(asked("inval")):
                fresh = b.trunc(load_field(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.FRESH_SHADOW), t.I8)
                shade(b, address, i32(8), b.or_(fresh, ir.Constant(t.I8, 255 & ~Shadow.INITIALISED)), 0)
            with b.if_then(asked("arrive", "arrive_drop", "expect_tx", "complete_tx")):
                store(b, old, ctx, result)
                arrivals = b.select(asked("arrive", "arrive_drop"), operand, i64(0))
                dropped = b.select(asked("arrive_drop"), operand, i64(0))
                changed = b.select(asked("complete_tx"), b.sub(i64(0), transactions), transactions)
                store(b, b.call(complete, [old, arrivals, dropped, changed]), address, 0)
    b.ret_void()


def _add_complete(module: ir.Module) -> Value:
    """Add the next state of an object: fewer arrivals missing, transactions added, and a new phase when none miss."""
    function, b = t.new_function(module, "mbarrier_next", I64, [I64] * 4)
    function.linkage = "internal"
    old, arrivals, dropped, changed = function.args
    phase = b.lshr(old, i64(_PHASE))
    pending = b.and_(b.sub(b.and_(old, i64(_COUNT)), arrivals), i64(_COUNT))
    expected = b.and_(b.sub(b.lshr(old, i64(_EXPECTED)), dropped), i64(_COUNT))
    missing = b.and_(b.add(b.lshr(old, i64(_TRANSACTIONS)), changed), i64((1 << _TX_BITS) - 1))
    over = b.icmp_unsigned("==", b.or_(pending, missing), i64(0))
    pending = b.select(over, expected, pending)
    phase = b.add(phase, b.zext(over, I64))
    result = b.or_(pending, b.shl(expected, i64(_EXPECTED)))
    result = b.or_(result, b.shl(missing, i64(_TRANSACTIONS)))
    b.ret(b.or_(result, b.shl(phase, i64(_PHASE))))
    return function
