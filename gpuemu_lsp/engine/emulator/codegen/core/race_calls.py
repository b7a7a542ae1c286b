"""Instrumentation for the race detector: accesses that can race, synchronisation of lanes, fences, release, acquire.

The detector itself is :mod:`~gpuemu_lsp.engine.emulator.devicelib.race_detector`. Accesses that the analysis of
:mod:`~gpuemu_lsp.engine.emulator.analysis.race_candidates` proves race-free are not instrumented.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.fields import Field
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, RaceCall, ShadowLine
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import AccessForm, UniformAccess
from gpuemu_lsp.engine.emulator.codegen.core.addresses import LoadStore
from gpuemu_lsp.engine.emulator.codegen.core.contiguous import ContiguousAccess
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.devicelib.race_lines import ShadowLineRun
from gpuemu_lsp.engine.emulator.ir.accesses import has_block_scope
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Instruction, Operand

_INLINE_LIMIT = 48
"""Instrumented accesses in a program up to which the common case is inlined at each of them."""


# ---- flags -----------------------------------------------------------------------------------------------------------


def race_flags(e: Emitter, instruction: Instruction) -> int:
    """Return the :class:`RaceFlag` bits of the current access, 0 if it cannot race."""
    candidates = e.unit.race_candidates
    if e.site not in candidates.sites:
        return 0
    if "mbarrier" in (instruction.opcode, *instruction.modifiers[:2]):
        return RaceFlag.WATCHED | _mbarrier_flags(instruction)
    atomic = instruction.opcode in ("atom", "red")
    stores = atomic or instruction.opcode in ("st", "sust")
    flags = RaceFlag.WATCHED | (RaceFlag.STORE if stores else 0) | (RaceFlag.ATOMIC if atomic else 0)
    if e.site in candidates.strong:
        flags |= RaceFlag.STRONG | (RaceFlag.BLOCK_SCOPE if has_block_scope(instruction) else 0)
        if candidates.needs_vector_clocks:
            # Any strong access may be the memory operation of a release or acquire pattern whose fence is a separate
            # instruction (PTX ISA section 8.8), such as __threadfence() before a volatile store.
            flags |= RaceFlag.ACQUIRE if instruction.opcode in ("ld", "atom") else 0
            flags |= RaceFlag.RELEASE if stores else 0
    return flags


def _mbarrier_flags(instruction: Instruction) -> int:
    """Return the flags of an operation as an access to the object itself; the order it creates is a separate call."""
    if instruction.modifiers[0] in ("init", "inval"):
        return RaceFlag.STORE
    if instruction.modifiers[0] in ("test_wait", "try_wait"):
        return RaceFlag.STRONG
    return RaceFlag.STORE | RaceFlag.ATOMIC | RaceFlag.STRONG


def copy_race_flags(e: Emitter) -> tuple[int, int]:
    """Return the flags of an asynchronous copy's read and of its write."""
    candidates = e.unit.race_candidates
    read = RaceFlag.WATCHED if e.site in candidates.copy_sources else 0
    return read, RaceFlag.WATCHED | RaceFlag.STORE if e.site in candidates.sites else 0


def is_strong(e: Emitter) -> bool:
    """Whether the current access may order threads, so that the detector must see it lane by lane."""
    return e.site in e.unit.race_candidates.strong


# ---- accesses --------------------------------------------------------------------------------------------------------


def is_race_free(e: Emitter, access: LoadStore, form: AccessForm) -> Value:
    """Return whether an access, whose addresses have been checked, races with no earlier one; record it if so."""
    cells = access.total >> e.unit.race_candidates.cell_shift
    kind = "store" if access.store else "load"
    near = f"{kind}_shared" if access.space == "shared" else kind
    if isinstance(form, ContiguousAccess):
        return _contiguous(e, access, form, near, cells)
    if isinstance(form, UniformAccess):
        return _uniform(e, access, form, near, cells)
    return _call(e, f"race_scattered_{kind}", [e.active_mask(), i32(cells)])


def _contiguous(e: Emitter, access: LoadStore, form: ContiguousAccess, kind: str, cells: int) -> Value:
    b = e.builder
    runs = [(part, e.lanes) for part in form.parts] if access.shape.per_part else [(0, e.lanes * e.parts)]
    lanes = e.active_mask()
    # Inlined at every access, the common case would make large kernels slow to compile.
    few = len(e.unit.race_candidates.sites) <= _INLINE_LIMIT
    result = None
    for part, count in runs:
        base, offset = form.address_of_part(part)
        address = b.add(b.ptrtoint(base, I64), i64(offset))
        # Shadow cells per lane, a power of two: the library finds the lane of a cell by a shift.
        shift = cells.bit_length() - 1
        arguments = [lanes, address, i32(part * e.lanes), i32(count * cells), i32(shift)]
        if access.space == "global" and cells == 1 and count == WARP_SIZE and few:
            one = _inlined_pair_of_lines(e, access, f"race_row_{kind}", arguments)
        else:
            one = _call(e, f"race_row_{kind}", arguments)
        result = one if result is None else b.and_(result, one)
    return result


def _inlined_pair_of_lines(e: Emitter, access: LoadStore, name: str, arguments: list[Value]) -> Value:
    """Inline the common case: a full warp accesses two aligned shadow lines that are new, or its own already."""
    b = e.builder
    lanes, address, *_ = arguments
    shift = e.unit.race_candidates.cell_shift
    # Fences and warp synchronisation advance the epoch: unlike the other fields it must be loaded here.
    now, me = load_field(b, e.context, Warp.EPOCH), e.record_field("me", "context", Warp.FIRST_THREAD)
    lines, launch_epoch = (
        (e.launch(LaunchRecord.RACE_LINES), e.launch(LaunchRecord.RACE_PLANE_STRIDE)),
        e.launch(LaunchRecord.RACE_LAUNCH_EPOCH),
    )
    offset = b.sub(address, e.launch(LaunchRecord.ARENA))
    row = ShadowLineRun(b, lines, i32(e.site), me, i32(0), now, launch_epoch, is_store=access.store)
    fine, new = row.pair(b.ashr(offset, i64(shift + ShadowLine.SHIFT)), i32(0))
    aligned = b.icmp_unsigned("==", b.and_(offset, i64((ShadowLine.CELLS << shift) - 1)), i64(0))
    # The check admits every address of the arena, shared memory included, which has no lines.
    is_global = b.icmp_unsigned("<", address, e.launch(LaunchRecord.RACE_PRIVATE_START))
    fine = b.and_(b.and_(fine, b.icmp_unsigned("==", lanes, i32(-1))), b.and_(aligned, is_global))
    fast, slow, recorded = e.append_block("lines"), e.append_block("cells"), e.append_block("recorded")
    b.cbranch(fine, fast, slow).set_weights([20, 1])
    b.position_at_end(fast)
    row.record_pair(new)
    b.branch(recorded)
    b.position_at_end(slow)
    answer = _call(e, name, arguments)
    b.branch(recorded)
    b.position_at_end(recorded)
    result = b.phi(I1)
    result.add_incoming(ir.Constant(I1, 1), fast)
    result.add_incoming(answer, slow)
    return result


def _uniform(e: Emitter, access: LoadStore, form: UniformAccess, kind: str, cells: int) -> Value:
    b = e.builder
    result = None
    for part, (base, offset) in enumerate(form.addresses):
        lanes = form.lanes(part)
        address = b.add(b.ptrtoint(base, I64), i64(offset))
        one = _call(e, f"race_broadcast_{kind}", [lanes, address, i32(cells)])
        if access.store and not all(form.stores_one_value(item) for item in access.items):
            # Lanes of one warp that store different values to one address race. Whether the values differ is decided
            # lane by lane, unless a single lane stores: mask & (mask - 1) clears the lowest bit.
            others = b.and_(lanes, b.sub(lanes, i32(1)))
            one = b.and_(one, b.icmp_unsigned("==", others, i32(0)))
        result = one if result is None else b.and_(result, one)
    return result


def _call(e: Emitter, name: str, arguments: list[Value]) -> Value:
    return t.call_address(e.builder, DEVICE_LIBRARY.address(name), I1, [e.context, i32(e.site), *arguments])


# ---- synchronisation -------------------------------------------------------------------------------------------------


def emit_warp_sync(e: Emitter, mask: Operand) -> None:
    """Record that the lanes named by ``mask`` have synchronised: earlier accesses of each happen before later ones."""
    if not e.unit.race_candidates.sites:
        return
    b = e.builder
    if not e.divergent and e.constant(mask) in (-1, 0xFFFFFFFF) and not e.is_guarded:
        # All live lanes take part: one epoch for the warp instead of a clock per lane.
        store_field(b, _next_epoch(e), e.context, Warp.WARP_BARRIER_EPOCH)
        return
    for part in range(e.parts):
        t.store(b, e.vector_operand(mask, "b32", part), e.context, Warp.VALUES + 4 * part * e.lanes, align=4)
    t.call_address(b, DEVICE_LIBRARY.address("race_sync_warp"), t.VOID, [e.context, e.active_mask(), e.live_mask()])


def emit_fence(e: Emitter, *, block_scope: bool) -> None:
    """Record a fence: a later release by these lanes covers their accesses up to now.

    With ``block_scope`` it does so for threads of the same block only.
    """
    if not e.unit.race_candidates.needs_vector_clocks:
        return
    now = t.splat(e.builder, _next_epoch(e), e.lanes)
    _set_lanes(e, Warp.FENCE_EPOCH, now)
    if not block_scope:
        _set_lanes(e, Warp.WIDE_FENCE_EPOCH, now)


def _set_lanes(e: Emitter, array: Field, now: Value) -> None:
    """Set an element of the context for each active lane."""
    b = e.builder
    for part in range(e.parts):
        field = array.element(part * e.lanes)
        active = e.active(part)
        if active is None:
            store_lanes(b, now, e.context, field)
        else:
            name = f"llvm.masked.store.{t.mangled(now.type)}.p0"
            t.intrinsic(b, name, t.VOID, [now, t.at(b, e.context, field), i32(4), active])


def emit_release(e: Emitter) -> None:
    """Release the accesses of the active lanes through the addresses in the scratch space."""
    if e.unit.race_candidates.needs_vector_clocks:
        # An mbarrier object lies in the block's shared memory, and .cta is the scope of operations without one. In a
        # cluster other blocks use it; only there is its order asked for by them.
        emit_fence(e, block_scope=not e.unit.program.spans_blocks)
        _acquire_or_release(e, RaceCall.RELEASE)


def emit_acquire(e: Emitter) -> None:
    """Acquire what has been released through the addresses in the scratch space."""
    if e.unit.race_candidates.needs_vector_clocks:
        _acquire_or_release(e, RaceCall.ACQUIRE)


def _acquire_or_release(e: Emitter, call: int) -> None:
    arguments = [e.context, e.active_mask(), i32(call)]
    t.call_address(e.builder, DEVICE_LIBRARY.address("race_acquire_release"), t.VOID, arguments)


def _next_epoch(e: Emitter) -> Value:
    # Accesses after the synchronisation get a new epoch, so that they are not covered by it.
    b = e.builder
    now = b.add(load_field(b, e.context, Warp.EPOCH), i32(Epoch.TICK))
    store_field(b, now, e.context, Warp.EPOCH)
    return now
