"""``mbarrier`` objects (PTX ISA section 9.7.13.15) as a function of the device library.

The 64 bits of such an object are opaque in PTX. Here they are, from the lowest: 20 bits pending arrivals of this phase,
20 bits expected arrivals of every phase, 21 bits pending transactions (tx-count, signed), 3 bits phase number. The
state that ``arrive`` returns is the object before the operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, STORE_FLAG
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer
from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.shadow_bytes import change_shadow
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64, load, store

NAMES: Final = ("mbarrier",)

OPERATIONS: Final = {
    name: number
    for number, name in enumerate(
        ("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test", "parity")
    )
}
"""Number of each operation; ``arrive`` with a transaction count also raises the tx-count (``expect_tx``)."""

_COUNT = (1 << 20) - 1
_EXPECTED, _TRANSACTIONS, _PHASE = 20, 40, 61
_TX_BITS = 21


def after_transactions(state: int, count: int) -> int:
    """Return the object after ``complete_tx`` of ``count`` bytes: what generated code does, for bulk copies."""
    pending, expected = state & _COUNT, state >> _EXPECTED & _COUNT
    missing = (state >> _TRANSACTIONS) - count & (1 << _TX_BITS) - 1
    phase = state >> _PHASE
    if not pending and not missing:
        pending, phase = expected, phase + 1 & 7
    return pending | expected << _EXPECTED | missing << _TRANSACTIONS | phase << _PHASE


def after_arrival(state: int) -> int:
    """Return the object after one arrival: what generated code does, for commits of ``tcgen05``."""
    pending = (state & _COUNT) - 1 & _COUNT
    return after_transactions(state & ~_COUNT | pending, 0)


@dataclass(frozen=True, slots=True)
class MbarrierCounts:
    """The fields of an object; ``missing`` is its tx-count, negative where copies brought more than was expected."""

    pending: int
    expected: int
    missing: int
    phase: int


def counts_of(state: int) -> MbarrierCounts:
    """Return the fields of an object's 64 bits."""
    missing = outstanding(state)
    signed = missing - (missing >> _TX_BITS - 1 << _TX_BITS)
    return MbarrierCounts(state & _COUNT, state >> _EXPECTED & _COUNT, signed, state >> _PHASE)


def is_over(state: int, operand: int, *, by_parity: bool) -> bool:
    """Return what a test of an object finds: whether the phase of a parity, or of an earlier state, has completed."""
    phase = state >> _PHASE
    return phase & 1 != operand & 1 if by_parity else phase != operand >> _PHASE


def outstanding(state: int) -> int:
    """Return the bytes that the phase of an object is short of."""
    return state >> _TRANSACTIONS & (1 << _TX_BITS) - 1


def add_mbarrier(module: ir.Module, check: Value, race_lane: Value) -> None:
    """Add ``mbarrier(ctx, site, lanes, operation, flags)``; ``flags`` are access flags.

    Addresses lie in ``Warp.ADDRESSES``, the operand in ``Warp.VALUES``, transactions in its second row. The third row
    gets the object before the operation, or for ``test`` and ``parity`` whether the phase has completed.
    """
    function, b = t.new_function(module, "mbarrier", VOID, [POINTER, I32, I32, I32, I32])
    ctx, site, lanes, operation, flags = function.args
    races = b.lshr(flags, i32(RACE_SHIFT))
    next_state = _add_next_state(module)

    def is_one_of(*names: str) -> Value:
        found = [b.icmp_unsigned("==", operation, i32(OPERATIONS[name])) for name in names]
        result = found[0]
        for one in found[1:]:
            result = b.or_(result, one)
        return result

    # Lane after lane: lanes of one warp may arrive at the same object, each as an operation of its own.
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

        # Only the operations that set up or end an object may find anything in its bytes; all others read them.
        first = b.select(is_one_of("init", "inval"), ir.Constant(I1, 1), ir.Constant(I1, 0))
        readable = b.alloca(I1)
        b.store(first, readable)
        with b.if_then(b.not_(first)):
            b.store(may(0), readable)
        # Tested as a load and as a store: a store alone would accept an object that was never initialised, a load alone
        # one in read-only memory.
        with b.if_then(b.load(readable)), b.if_then(may(STORE_FLAG)):
            old = load(b, address, 0, I64)
            count = b.and_(operand, i64(_COUNT))
            # Phase and tx-count start at 0, whatever the bytes were: before ``init`` there is no object.
            initial = b.or_(count, b.shl(count, i64(_EXPECTED)))
            # Writes of one value do not race: in a two-dimensional block several threads have `threadIdx.x == 0`.
            alike = b.and_(is_one_of("init"), b.icmp_unsigned("==", old, initial))
            with b.if_then(b.and_(b.icmp_unsigned("!=", races, i32(0)), b.not_(alike))):
                b.call(race_lane, [ctx, site, lane, address, i32(8), races, i64(0)])
            waiting = is_one_of("test", "parity")
            with b.if_then(waiting):
                # A state names the phase that was current when it was made: over as soon as the object is in another.
                phase = b.lshr(old, i64(_PHASE))
                other = b.icmp_unsigned("!=", phase, b.lshr(operand, i64(_PHASE)))
                parity = b.icmp_unsigned("!=", b.and_(phase, i64(1)), b.and_(operand, i64(1)))
                over = b.select(is_one_of("parity"), parity, other)
                store(b, b.zext(over, I64), ctx, result)
            with b.if_then(is_one_of("init")):
                store(b, initial, address, 0)
                change_shadow(b, address, i32(8), 255, Shadow.INITIALISED | Shadow.WRITTEN)
            with b.if_then(is_one_of("inval")):
                # The bytes become uninitialised, so that a use of the object after ``inval`` is reported.
                fresh = b.trunc(load_field(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.FRESH_SHADOW), t.I8)
                change_shadow(b, address, i32(8), b.or_(fresh, ir.Constant(t.I8, 255 & ~Shadow.INITIALISED)), 0)
            with b.if_then(is_one_of("arrive", "arrive_drop", "expect_tx", "complete_tx")):
                store(b, old, ctx, result)
                arrivals = b.select(is_one_of("arrive", "arrive_drop"), operand, i64(0))
                dropped = b.select(is_one_of("arrive_drop"), operand, i64(0))
                changed = b.select(is_one_of("complete_tx"), b.sub(i64(0), transactions), transactions)
                store(b, b.call(next_state, [old, arrivals, dropped, changed]), address, 0)
    b.ret_void()


def _add_next_state(module: ir.Module) -> Value:
    """Add ``mbarrier_next(state, arrivals, dropped, transactions) -> i64``.

    A phase completes when neither arrivals nor transactions are pending; the next one starts with the expected count.
    """
    function, b = t.new_function(module, "mbarrier_next", I64, [I64] * 4)
    function.linkage = "internal"
    old, arrivals, dropped, changed = function.args
    phase = b.lshr(old, i64(_PHASE))
    # All counts are modulo their width: a program that arrives too often is undefined in PTX, and only must not crash.
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
