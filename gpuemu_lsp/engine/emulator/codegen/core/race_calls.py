"""Where translated code asks the race checker, and tells it of fences and meetings of lanes."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, RaceCall, ShadowLine
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import Form, Row, Single
from gpuemu_lsp.engine.emulator.codegen.core.addresses import Access
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.devicelib.race_lines import ShadowLineRun
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Instruction, Operand

_INLINE = 48
"""Watched accesses up to which the ordinary case is written out at each of them."""


def race_flags(e: Emitter, instruction: Instruction) -> int:
    """Return what the race checker is to know of an access, 0 where it cannot race."""
    tracking = e.unit.race_candidates
    if e.site not in tracking.sites:
        return 0
    if "mbarrier" in (instruction.opcode, *instruction.modifiers[:2]):
        return RaceFlag.WATCHED | _on_mbarrier(instruction)
    atomic = instruction.opcode in ("atom", "red")
    stores = atomic or instruction.opcode == "st"
    flags = RaceFlag.WATCHED | (RaceFlag.STORE if stores else 0) | (RaceFlag.ATOMIC if atomic else 0)
    if e.site in tracking.strong:
        flags |= RaceFlag.STRONG
        if tracking.needs_vector_clocks:
            flags |= RaceFlag.ACQUIRE if instruction.opcode in ("ld", "atom") else 0
            flags |= RaceFlag.RELEASE if stores else 0
    return flags


def _on_mbarrier(instruction: Instruction) -> int:
    """Return what an operation does to the object itself; the order that it makes is told apart."""
    if instruction.modifiers[0] in ("init", "inval"):
        return RaceFlag.STORE
    if instruction.modifiers[0] in ("test_wait", "try_wait"):
        return RaceFlag.STRONG
    return RaceFlag.STORE | RaceFlag.ATOMIC | RaceFlag.STRONG


def copy_flags(e: Emitter) -> tuple[int, int]:
    """Return the flags of an asynchronous copy's read and of its write."""
    tracking = e.unit.race_candidates
    read = RaceFlag.WATCHED if e.site in tracking.copy_sources else 0
    return read, RaceFlag.WATCHED | RaceFlag.STORE if e.site in tracking.sites else 0


def needs_lanes(e: Emitter) -> bool:
    """Whether the access must be looked at lane by lane: it may order threads."""
    return e.site in e.unit.race_candidates.strong


def in_order(e: Emitter, access: Access, form: Form) -> Value:
    """Return whether an access of this form races with nothing, noting it if so; its addresses are known to be good."""
    cells = access.total >> e.unit.race_candidates.cell_shift
    kind = "store" if access.store else "load"
    near = f"{kind}_shared" if access.space == "shared" else kind
    if isinstance(form, Row):
        return _row(e, access, form, near, cells)
    if isinstance(form, Single):
        return _single(e, access, form, near, cells)
    return _call(e, f"race_scattered_{kind}", [e.active_mask(), i32(cells)])


def _row(e: Emitter, access: Access, form: Row, kind: str, cells: int) -> Value:
    b = e.builder
    pieces = [(part, e.lanes) for part in form.parts] if access.shape.per_part else [(0, e.lanes * e.parts)]
    lanes = e.active_mask()
    result = None
    for part, count in pieces:
        base, offset = form.place(part)
        address = b.add(b.ptrtoint(base, I64), i64(offset))
        shift = cells.bit_length() - 1
        ask = [lanes, address, i32(part * e.lanes), i32(count * cells), i32(shift)]
        if (
            access.space == "global"
            and cells == 1
            and count == WARP_SIZE
            and len(e.unit.race_candidates.sites) <= _INLINE
        ):
            one = _pair_of_lines(e, access, f"race_row_{kind}", ask)
        else:
            one = _call(e, f"race_row_{kind}", ask)
        result = one if result is None else b.and_(result, one)
    return result


def _pair_of_lines(e: Emitter, access: Access, name: str, arguments: list[Value]) -> Value:
    """Do here what is ordinary: a warp's neighbours come to two lines for the first time, or again."""
    b = e.builder
    lanes, address, *_ = arguments
    shift = e.unit.race_candidates.cell_shift
    now, me = load_field(b, e.context, Warp.EPOCH), e.record_field("me", "context", Warp.FIRST_THREAD)
    lines, floor = (
        (e.launch(LaunchRecord.RACE_LINES), e.launch(LaunchRecord.RACE_PLANE_STRIDE)),
        e.launch(LaunchRecord.RACE_LAUNCH_EPOCH),
    )
    offset = b.sub(address, e.launch(LaunchRecord.ARENA))
    row = ShadowLineRun(b, lines, i32(e.site), me, i32(0), now, floor, is_store=access.store)
    fine, new = row.pair(b.ashr(offset, i64(shift + ShadowLine.SHIFT)), i32(0))
    whole = b.icmp_unsigned("==", b.and_(offset, i64((ShadowLine.CELLS << shift) - 1)), i64(0))
    here = b.icmp_unsigned("<", address, e.launch(LaunchRecord.RACE_PRIVATE_START))
    fine = b.and_(b.and_(fine, b.icmp_unsigned("==", lanes, i32(-1))), b.and_(whole, here))
    quick, closer, noted = e.append_block("quick"), e.append_block("closer"), e.append_block("noted")
    b.cbranch(fine, quick, closer).set_weights([20, 1])
    b.position_at_end(quick)
    row.note_pair(new)
    b.branch(noted)
    b.position_at_end(closer)
    answer = _call(e, name, arguments)
    b.branch(noted)
    b.position_at_end(noted)
    result = b.phi(I1)
    result.add_incoming(ir.Constant(I1, 1), quick)
    result.add_incoming(answer, closer)
    return result


def _single(e: Emitter, access: Access, form: Single, kind: str, cells: int) -> Value:
    b = e.builder
    result = None
    for part, (base, offset) in enumerate(form.hosts):
        lanes = form.lanes(part)
        address = b.add(b.ptrtoint(base, I64), i64(offset))
        one = _call(e, f"race_broadcast_{kind}", [lanes, address, i32(cells)])
        if access.store and not all(form.agree(item) for item in access.items):
            # Several lanes with values of their own: whether these differ is seen lane by lane.
            others = b.and_(lanes, b.sub(lanes, i32(1)))
            one = b.and_(one, b.icmp_unsigned("==", others, i32(0)))
        result = one if result is None else b.and_(result, one)
    return result


def _call(e: Emitter, name: str, arguments: list[Value]) -> Value:
    return t.call_address(e.builder, DEVICE_LIBRARY.address(name), I1, [e.context, i32(e.site), *arguments])


def emit_meeting(e: Emitter, mask: Operand) -> None:
    """Note that the lanes ``mask`` names have met: what each did before is behind all of them."""
    if not e.unit.race_candidates.sites:
        return
    b = e.builder
    if not e.divergent and e.constant(mask) in (-1, 0xFFFFFFFF) and not e.is_guarded:
        store_field(b, _next_epoch(e), e.context, Warp.WARP_BARRIER_EPOCH)
        return
    for part in range(e.parts):
        t.store(b, e.vector_operand(mask, "b32", part), e.context, Warp.VALUES + 4 * part * e.lanes, align=4)
    t.call_address(b, DEVICE_LIBRARY.address("race_sync_warp"), t.VOID, [e.context, e.active_mask(), e.live_mask()])


def emit_fence(e: Emitter) -> None:
    """Note that what the lanes did before can be released from now on."""
    if not e.unit.race_candidates.needs_vector_clocks:
        return
    b = e.builder
    now = t.splat(b, _next_epoch(e), e.lanes)
    for part in range(e.parts):
        field = Warp.FENCE_EPOCH.element(part * e.lanes)
        active = e.active(part)
        if active is None:
            store_lanes(b, now, e.context, field)
        else:
            name = f"llvm.masked.store.{t.mangled(now.type)}.p0"
            t.intrinsic(b, name, t.VOID, [now, t.at(b, e.context, field), i32(4), active])


def emit_release(e: Emitter) -> None:
    """Release what the lanes did before through the addresses in the scratch space."""
    if e.unit.race_candidates.needs_vector_clocks:
        emit_fence(e)
        _synchronise(e, RaceCall.RELEASE)


def emit_acquire(e: Emitter) -> None:
    """Learn what was released through the addresses in the scratch space."""
    if e.unit.race_candidates.needs_vector_clocks:
        _synchronise(e, RaceCall.ACQUIRE)


def _synchronise(e: Emitter, what: int) -> None:
    arguments = [e.context, e.active_mask(), i32(what)]
    t.call_address(e.builder, DEVICE_LIBRARY.address("race_acquire_release"), t.VOID, arguments)


def _next_epoch(e: Emitter) -> Value:
    b = e.builder
    now = b.add(load_field(b, e.context, Warp.EPOCH), i32(Epoch.TICK))
    store_field(b, now, e.context, Warp.EPOCH)
    return now
