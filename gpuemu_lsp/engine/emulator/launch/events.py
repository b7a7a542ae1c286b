"""Events of a launch, from the records of generated code and the scheduler's incidents: thread, buffer, source line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.emulator.abi.access_flags import AHEAD_FLAG, EXITED_FLAG, IN_FLIGHT_FLAG, STORE_FLAG, RaceFlag
from gpuemu_lsp.engine.emulator.abi.race_records import THREAD_IN_BLOCK, Epoch
from gpuemu_lsp.engine.emulator.abi.states import EVENT_KINDS, EventKind
from gpuemu_lsp.engine.emulator.abi.structs import EventRecord, LaunchRecord
from gpuemu_lsp.engine.emulator.analysis.copies_only import is_only_copied
from gpuemu_lsp.engine.emulator.frontend.address_spaces import RESERVED_SHARED
from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_EVENT, PUSH, memory_space
from gpuemu_lsp.engine.emulator.launch import access_messages
from gpuemu_lsp.engine.emulator.launch.access_messages import AccessedBytes, accessed_bytes, demangled
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.emulator.launch.race_events import RaceAccess, limited, merged, race_event
from gpuemu_lsp.engine.emulator.launch.state import Incident, LaunchReport, PreparedLaunch
from gpuemu_lsp.engine.execution import LOCAL_MEMORY, Access, Dim3, Event, Writer
from gpuemu_lsp.engine.ptx.model import Instruction

_OUT = EventKind.OUT_OF_BOUNDS
_ARRAYS, _NEAR_ARRAY = ("local", "shared"), 4096
_RULES: Mapping[int, str] = {
    EventKind.OUT_OF_BOUNDS: "memory/out-of-bounds",
    EventKind.MISALIGNED: "memory/misaligned",
    EventKind.NULL: "memory/null-pointer",
    EventKind.UNINITIALISED: "memory/uninitialized-read",
    EventKind.READ_ONLY: "memory/out-of-bounds",
    EventKind.WARP_MASK: "sync/missing-warp-mask",
    EventKind.COPY_OVERTAKEN: "sync/async-order",
}

_RESIDENT_BLOCKS = 132
"""Multiprocessors of an H100 SXM5: a grid of no more blocks may be resident as a whole."""

_MASK_REASONS = {
    1: "the executing lane is not in its own member mask",
    2: "the source lane does not participate: the value read from it is undefined",
    3: "not all 32 lanes of the warp execute this instruction: the result is undefined",
}
"""By the number that generated code stores in place of the access's size."""
_RACES = frozenset({EventKind.RACE, EventKind.WEAK_STRONG_RACE, EventKind.PROGRAM_RACE})

FAULTS = frozenset({"memory/out-of-bounds", "memory/misaligned", "memory/null-pointer"})
"""Rules of faults that end a kernel on a GPU: outputs of such a launch are undefined."""


@dataclass(frozen=True, slots=True)
class _RawEvent:
    """An event record, with the number of times the event happened."""

    site: int
    kind: int
    lane: int
    size: int
    address: int
    block: int
    warp: int
    flags: int
    count: int
    other_site: int = 0
    other: int = 0
    other_epoch: int = 0
    other_wrote: bool = False

    @property
    def in_flight(self) -> bool:
        return bool(self.flags & IN_FLIGHT_FLAG)

    @property
    def absent_block(self) -> bool:
        """Whether a block of the cluster whose memory this is has exited or has not started."""
        return self.kind == EventKind.OUT_OF_BOUNDS and bool(self.flags & (EXITED_FLAG | AHEAD_FLAG))

    @property
    def access(self) -> Access:
        """What the instruction does with the accessed bytes."""
        return Access.WRITE if self.flags & STORE_FLAG else Access.READ


def collect_events(prepared: PreparedLaunch, report: LaunchReport) -> tuple[Event, ...]:
    """Return the launch's events: those of generated code in the order they happened, then the scheduler's."""
    checks = prepared.request.checks
    events, raws = [], _records(prepared)
    races = [{raw.site, raw.other_site} for raw in raws if raw.kind in _RACES]
    racing = {site for sites in races if sites.isdisjoint(report.unordered) for site in sites}
    for raw in raws:
        if raw.kind == EventKind.UNINITIALISED and (
            _is_copied_object(prepared, raw)
            or _text_line(prepared, raw.site) in report.explained
            # An instruction that leaves its buffer may read any other memory.
            or _count(prepared, raw.site, _OUT)
        ):
            continue
        if _is_unseen_arrival(prepared, raw) or (raw.kind in _RACES and not {raw.site, raw.other_site} <= racing):
            continue
        # Another thread's write to the target of a copy is a race, with both lines.
        if raw.kind == EventKind.COPY_OVERTAKEN and raw.site in racing:
            continue
        make = _stop if raw.kind == EventKind.STOP else _race if raw.kind in _RACES else _access
        events.append(make(prepared, raw))
    for key, incident in report.incidents.items():
        if incident.unless_racing and incident.site in racing:
            continue
        events.append(_from_incident(prepared, incident, report.counts[key]))
    # Bounds and synchronisation are always checked, because faulty accesses must be contained: events of checks that
    # the request disables are dropped here.
    wanted = []
    for event in merged(events):
        if event.rule in FAULTS and not checks.bounds:
            continue
        if event.rule in ("sync/barrier-divergence", "sync/missing-warp-mask") and not checks.sync:
            continue
        wanted.append(event)
    return limited(wanted, prepared.request.max_events)


def last_writer(prepared: PreparedLaunch) -> Writer | None:
    """Return the last writer of the watched bytes, None if there was none."""
    launch = prepared.launch
    site = launch.get(LaunchRecord.WATCH_SITE)
    if site < 0:
        return None
    instruction = prepared.kernel.sites[site][0]
    thread, block = launch.get(LaunchRecord.WATCH_THREAD), launch.get(LaunchRecord.WATCH_BLOCK)
    return Writer(
        instruction.location if instruction else None,
        instruction.name if instruction else "",
        _coordinates(thread, prepared.request.block),
        _coordinates(block, prepared.request.grid),
    )


def _records(prepared: PreparedLaunch) -> list[_RawEvent]:
    """Return the launch's event records."""
    raws = []
    for index in range(prepared.launch.get(LaunchRecord.EVENT_COUNT)):
        record = prepared.events.at(index * EventRecord.SIZE)
        site, kind = record.get(EventRecord.SITE), record.get(EventRecord.KIND)
        raws.append(
            _RawEvent(
                site=site,
                kind=kind,
                lane=record.get(EventRecord.LANE),
                size=record.get(EventRecord.BYTES),
                address=record.get(EventRecord.ADDRESS),
                block=record.get(EventRecord.BLOCK),
                warp=record.get(EventRecord.WARP),
                flags=record.get(EventRecord.FLAGS),
                count=_count(prepared, site, kind),
                other_site=record.get(EventRecord.OTHER_SITE),
                other=record.get(EventRecord.OTHER_THREAD),
                other_epoch=record.get(EventRecord.OTHER_EPOCH),
                other_wrote=bool(record.get(EventRecord.OTHER_WROTE)),
            )
        )
    return raws


def _count(prepared: PreparedLaunch, site: int, kind: int) -> int:
    return int(prepared.event_counts.table64((site + 1) * EVENT_KINDS)[site * EVENT_KINDS + kind])


def _furthest(prepared: PreparedLaunch, raw: _RawEvent, region: Region | None) -> int | None:
    """Return the end of an instruction's furthest access in the guard zone of a buffer, from the buffer's start."""
    if raw.kind != _OUT or region is None or region.kind != "buffer":
        return None
    table = prepared.highest_addresses.table64((raw.site + 1) * EVENT_KINDS)
    end = int(table[raw.site * EVENT_KINDS + raw.kind]) + raw.size - region.address
    return end if 0 < end <= region.size + prepared.request.guard_bytes else None


def _coordinates(linear: int, dims: Dim3) -> Dim3:
    """Return the coordinates of a linear index; x is the fastest dimension."""
    x, y, _ = dims
    return linear % x, linear // x % y, linear // (x * y)


def _stop(prepared: PreparedLaunch, raw: _RawEvent) -> Event:
    instruction, stop = prepared.kernel.sites[raw.site]
    name = instruction.name if instruction is not None else ""
    what = f"`{name}`" if name else "this instruction"
    rule, message = "engine/unsupported-instruction", f"{what} cannot be run"
    if stop is not None:
        rule, message = stop.rule, stop.message
    elif name == PUSH:
        rule, message, name = "sync/trap", "recursion overflows the thread's stack", "call"
    return Event(
        rule,
        message,
        instruction.location if instruction else None,
        name,
        _coordinates(raw.warp * 32 + raw.lane, prepared.request.block),
        _coordinates(raw.block, prepared.request.grid),
        count=raw.count,
        cause=stop.cause if stop is not None else None,
    )


def _is_arrival_at_exited(prepared: PreparedLaunch, raw: _RawEvent) -> bool:
    """Whether the event is an arrival at an ``mbarrier`` object of a block of the cluster that has exited."""
    instruction = prepared.kernel.sites[raw.site][0]
    exited = raw.kind == EventKind.OUT_OF_BOUNDS and bool(raw.flags & EXITED_FLAG)
    return exited and instruction is not None and instruction.opcode == "mbarrier"


def _is_unseen_arrival(prepared: PreparedLaunch, raw: _RawEvent) -> bool:
    """Whether an event is such an arrival, and no later block of the grid can get the memory: kernels rely on that."""
    return prepared.blocks <= _RESIDENT_BLOCKS and _is_arrival_at_exited(prepared, raw)


def _is_copied_object(prepared: PreparedLaunch, raw: _RawEvent) -> bool:
    """Whether the read is part of copying a local object that is only partly initialised.

    C++ copies a class object whole, with its padding and unset members; that is not an error.
    """
    instruction = prepared.kernel.sites[raw.site][0]
    if instruction is None or instruction.opcode != "ld" or memory_space(instruction) not in ("local", "generic"):
        return False
    windows = (resident.local for resident in prepared.residents)
    if not any(window.address <= raw.address < window.address + window.size for window in windows):
        return False
    return is_only_copied(prepared.kernel.program, instruction)


def _access(prepared: PreparedLaunch, raw: _RawEvent) -> Event:
    instruction = prepared.kernel.sites[raw.site][0]
    assert instruction is not None
    thread = _coordinates(raw.warp * 32 + raw.lane, prepared.request.block)
    block = _coordinates(raw.block, prepared.request.grid)
    rule = _RULES[raw.kind]
    if raw.kind == EventKind.WARP_MASK:
        return Event(
            rule, _MASK_REASONS[raw.size], instruction.location, instruction.name, thread, block, count=raw.count
        )
    region, offset = _locate(prepared, raw)
    if raw.kind == EventKind.UNINITIALISED and region is not None and region.name == RESERVED_SHARED.name:
        message = "this reads shared memory that the system sets up for cooperative groups, which is not emulated"
        rule = "engine/unsupported-instruction"
        return Event(rule, message, instruction.location, instruction.name, thread, block, count=raw.count)
    if raw.kind == EventKind.UNINITIALISED and region is not None and not 0 <= (offset or 0) < max(region.size, 1):
        raw, rule = replace(raw, kind=_OUT), _RULES[_OUT]
    named = [buffer for buffer in prepared.request.buffers if region is not None and buffer.name == region.name]
    in_padding = any(buffer.is_padding(offset or 0, raw.size) for buffer in named)
    message = _message(raw, instruction, _accessed(prepared, raw, region, offset), in_padding)
    if _is_arrival_at_exited(prepared, raw):
        rule = "sync/exited-block"
    return Event(
        rule,
        message,
        instruction.location,
        instruction.name,
        thread,
        block,
        demangled(region.name) if region else None,
        offset,
        raw.size,
        raw.count,
        data={"address": f"0x{raw.address & 0xFFFFFFFFFFFFFFFF:x}"},
        furthest=_furthest(prepared, raw, region),
        access=raw.access,
        extent=region.size if region else None,
    )


def _race(prepared: PreparedLaunch, raw: _RawEvent) -> Event:
    request = prepared.request

    def access(site: int, number: int, wrote: bool, spread: int) -> RaceAccess:
        instruction = prepared.kernel.sites[site][0]
        assert instruction is not None
        thread = _coordinates(number & THREAD_IN_BLOCK, request.block)
        return RaceAccess(instruction, site, number, wrote, thread, _coordinates(number >> 10, request.grid), spread)

    one = access(raw.site, raw.block << 10 | raw.warp * 32 + raw.lane, bool(raw.flags & RaceFlag.STORE), 0)
    other = access(raw.other_site, raw.other, raw.other_wrote, raw.other_epoch & Epoch.SPREAD)
    region, offset = _locate(prepared, raw)
    space = "shared" if region is not None and region.kind == "shared" else "global"
    return race_event(
        space,
        one,
        other,
        _accessed(prepared, raw, region, offset),
        raw.count,
        prepared.kernel.race_facts,
        within_program=raw.kind == EventKind.PROGRAM_RACE,
        wavefront=request.artifact.wavefront,
    )


def _locate(prepared: PreparedLaunch, raw: _RawEvent) -> tuple[Region | None, int | None]:
    """Return the region that an access hits, else the nearest one, and the access's offset from its start."""
    instruction = prepared.kernel.sites[raw.site][0]
    assert instruction is not None
    # An asynchronous copy has two addresses, in different spaces: which one is at fault follows from the address.
    space = "generic" if instruction.opcode == "cp" else memory_space(instruction)
    if space == "shared":
        return _locate_shared(prepared, raw.address)
    if space == "local":
        frame = max(prepared.kernel.program.local_bytes, 1)
        local = prepared.residents[0].local
        lane = raw.warp * 32 + raw.lane
        thread = Region(LOCAL_MEMORY, "local", local.address + lane * frame, frame)
        return thread, raw.address - thread.address
    regions = [r for r in prepared.arena.all_regions if r.kind != "param"]
    if raw.kind == EventKind.NULL or not regions:
        return None, None
    inside = [r for r in regions if r.address <= raw.address < r.address + r.size]
    if inside and not (space == "global" and inside[0].kind in _ARRAYS):
        if inside[0].kind == "shared":
            return _locate_shared(prepared, raw.address)
        return inside[0], raw.address - inside[0].address
    if instruction.opcode == "cp" and raw.access is Access.WRITE:
        return _locate_shared(prepared, raw.address)

    def distance(region: Region) -> int:
        return max(region.address - raw.address, raw.address - (region.address + region.size))

    # Far from the arrays of threads and blocks, a pointer of unknown space is one to a buffer.
    others = [r for r in regions if r.kind not in _ARRAYS or (space == "generic" and distance(r) <= _NEAR_ARRAY)]
    nearest = min(others or regions, key=distance)
    return nearest, raw.address - nearest.address


def _locate_shared(prepared: PreparedLaunch, address: int) -> tuple[Region, int]:
    """Return the shared variable that contains an address or is nearest to it, and the offset from its start."""
    program, request = prepared.kernel.program, prepared.request
    windows = [resident.shared for resident in prepared.residents]
    window = min(windows, key=lambda r: abs(address - (r.address + r.size // 2)))
    offset = address - window.address
    variables = [
        Region(name, "shared", slot.offset, slot.size or request.shared_bytes) for name, slot in program.shared.items()
    ]
    if not variables:
        return Region("shared memory", "shared", 0, request.shared_bytes), offset

    def distance(region: Region) -> int:
        return max(region.address - offset, offset - (region.address + region.size) + 1, 0)

    best = min(variables, key=distance)
    return best, offset - best.address


def _accessed(prepared: PreparedLaunch, raw: _RawEvent, region: Region | None, offset: int | None) -> AccessedBytes:
    instruction = prepared.kernel.sites[raw.site][0]
    assert instruction is not None
    name = region.name if region is not None and region.kind == "buffer" else None
    buffers = prepared.request.buffers if name is not None else ()
    start = next((buffer.pointer_offset for buffer in buffers if buffer.name == name), 0)
    return accessed_bytes(instruction, region, demangled(region.name) if region else None, offset, raw.size, start)


def _message(raw: _RawEvent, instruction: Instruction, access: AccessedBytes, in_padding: bool) -> str:
    verb = raw.access.noun
    if raw.absent_block:
        return access_messages.absent_block(verb, access, exited=bool(raw.flags & EXITED_FLAG))
    if raw.kind == EventKind.NULL:
        return access_messages.null_pointer(verb, access)
    if raw.kind == EventKind.MISALIGNED:
        return access_messages.misaligned(verb, access, instruction)
    if in_padding and raw.kind in (EventKind.UNINITIALISED, EventKind.READ_ONLY):
        return access_messages.in_padding(verb, access)
    if raw.kind == EventKind.UNINITIALISED:
        return access_messages.in_flight(access) if raw.in_flight else access_messages.uninitialised(access)
    if raw.kind == EventKind.COPY_OVERTAKEN:
        return access_messages.copy_overtaken(access, by_copy=raw.in_flight)
    if raw.kind == EventKind.READ_ONLY:
        return access_messages.read_only(access)
    return access_messages.out_of_bounds(verb, access)


def _from_incident(prepared: PreparedLaunch, incident: Incident, count: int) -> Event:
    instruction = prepared.kernel.sites[incident.site][0]
    other = prepared.kernel.sites[incident.other_site][0] if incident.other_site is not None else None
    return Event(
        incident.rule,
        incident.message,
        instruction.location if instruction else None,
        _incident_name(instruction),
        _coordinates(incident.thread, prepared.request.block),
        _coordinates(incident.block, prepared.request.grid),
        incident.buffer,
        count=count,
        other=other.location if other is not None else None,
        cause=incident.cause,
        access=incident.access,
    )


def _incident_name(instruction: Instruction | None) -> str:
    if instruction is None:
        return ""
    return f"wgmma.{instruction.modifiers[0]}" if instruction.opcode == GROUP_EVENT else instruction.name


def _text_line(prepared: PreparedLaunch, site: int) -> int:
    instruction = prepared.kernel.sites[site][0]
    return instruction.text_line if instruction is not None else -1
