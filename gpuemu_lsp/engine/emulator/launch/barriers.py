"""What a block waits at when none of its warps can run: barriers, and collectives that lanes do not come to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.abi.records import RecordView, lanes_of
from gpuemu_lsp.engine.emulator.abi.states import BarrierKind, Status
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.report import Incident, LaunchReport
from gpuemu_lsp.engine.emulator.launch.setup import PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks


class BarrierAssumptionError(Exception):
    """Threads met at different barriers of the program, and the race checker counted on their not doing so."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A lane at a barrier; ``index`` is its warp's."""

    warp: RecordView
    index: int
    lane: int
    name: int
    count: int
    kind: int
    predicate: bool
    site: int


class BarrierResolver:
    """Lets the threads of a block meet; what is odd about that goes into ``report``."""

    def __init__(self, prepared: PreparedLaunch, order: VectorClocks, report: LaunchReport) -> None:
        self._prepared, self._order, self._report = prepared, order, report

    def resolve(self, resident: ResidentBlock, warps: list[RecordView]) -> None:
        """Open a barrier that is complete, or let an incomplete collective run, or give up."""
        waiting = [lane for index, warp in enumerate(warps) for lane in _waiting(index, warp)]
        arriving = [one for one in waiting if one.kind == BarrierKind.ARRIVE]
        for one in arriving:
            resident.arrivals[one.name] = resident.arrivals.get(one.name, 0) + 1
            self._order.arrive(resident, one.name, one.index * WARP_SIZE + one.lane)
            _release(one)
        waiting = [one for one in waiting if one.kind != BarrierKind.ARRIVE]
        by_name: dict[int, list[_Waiting]] = defaultdict(list)
        for one in waiting:
            by_name[one.name].append(one)
        alive = _alive(warps)
        opened = bool(arriving)
        for name, lanes in by_name.items():
            opened |= self._try_open(resident, name, lanes, alive)
        if not opened:
            opened = self._force_collective(resident, warps)
        if not opened:
            self._stuck(resident, waiting)

    def _try_open(self, resident: ResidentBlock, name: int, lanes: list[_Waiting], alive: int) -> bool:
        counts = {one.count for one in lanes}
        arrived = len(lanes) + resident.arrivals.get(name, 0)
        expected = max(counts)
        if expected:
            if arrived < expected:
                return False
        elif len(lanes) < alive:
            return False
        if self._order.trusting and len({one.site for one in lanes}) > 1:
            raise BarrierAssumptionError
        self._check_meeting(resident, lanes, alive, expected)
        resident.arrivals.pop(name, None)
        self._order.meet(resident, name, [one.index * WARP_SIZE + one.lane for one in lanes], alive)
        _reduce(lanes)
        for one in lanes:
            _release(one)
        return True

    def _check_meeting(self, resident: ResidentBlock, lanes: list[_Waiting], alive: int, expected: int) -> None:
        """Report what hardware lets pass, or hangs on: threads that have left, or wait at another barrier."""
        first = lanes[0]
        thread = first.index * WARP_SIZE + first.lane
        if not expected and len(lanes) < self._prepared.threads:
            gone = self._prepared.threads - alive
            message = f"{len(lanes)} threads of the block wait at this barrier after {gone} others have ended"
            self._report.add(Incident("sync/barrier-divergence", message, first.site, thread, resident.number))
            return
        lines = {self._line(one.site) for one in lanes}
        if len(lines) > 1:
            others = sum(1 for one in lanes if self._line(one.site) != self._line(first.site))
            message = f"{len(lanes) - others} threads wait at this barrier while {others} wait at another one"
            self._report.add(Incident("sync/barrier-divergence", message, first.site, thread, resident.number))

    def _line(self, site: int) -> tuple[int, int] | int:
        instruction = self._prepared.kernel.sites[site][0]
        location = instruction.location if instruction is not None else None
        return (location.file, location.line) if location is not None else site

    def _force_collective(self, resident: ResidentBlock, warps: list[RecordView]) -> bool:
        """Let lanes run a collective although lanes it names will not come."""
        opened = False
        for index, warp in enumerate(warps):
            mask = warp.get(Warp.COLLECTIVE_MASK)
            if warp.get(Warp.STATUS) != Status.BLOCKED or not mask:
                continue
            lane = lanes_of(mask)[0]
            number = int(warp.row(Warp.PC)[lane])
            message = "a lane that the mask names never gets to this warp-wide instruction"
            site = self._prepared.kernel.site_of_block(number)
            self._report.add(
                Incident("sync/missing-warp-mask", message, site, index * WARP_SIZE + lane, resident.number)
            )
            warp.set(Warp.COLLECTIVE_MASK, 0)
            warp.set(Warp.FORCE_COLLECTIVE, 1)
            warp.set(Warp.STATUS, Status.READY)
            opened = True
        return opened

    def _stuck(self, resident: ResidentBlock, waiting: list[_Waiting]) -> None:
        self._report.status = "hung"
        places: dict[tuple[int, int], list[_Waiting]] = defaultdict(list)
        for one in waiting:
            places[one.name, one.site].append(one)
        for (name, site), lanes in places.items():
            expected = lanes[0].count or self._prepared.threads
            message = f"{len(lanes)} threads wait at barrier {name} for {expected}; no other thread can still arrive"
            thread = lanes[0].index * WARP_SIZE + lanes[0].lane
            self._report.add(Incident("sync/deadlock", message, site, thread, resident.number))


def _alive(warps: list[RecordView]) -> int:
    """Return how many threads of a block have not ended."""
    living = (warp.get(Warp.LIVE_MASK) for warp in warps if warp.get(Warp.STATUS) != Status.DONE)
    return sum(mask.bit_count() for mask in living)


def _waiting(index: int, warp: RecordView) -> list[_Waiting]:
    """Return the lanes of a warp that wait at a barrier."""
    status = warp.get(Warp.STATUS)
    if status not in (Status.BARRIER, Status.BLOCKED):
        return []
    mask = warp.get(Warp.BARRIER_MASK)
    names, counts = warp.row(Warp.BARRIER_ID), warp.row(Warp.BARRIER_COUNT)
    kinds, sites = warp.row(Warp.BARRIER_KIND), warp.row(Warp.BARRIER_SITE)
    together = status == Status.BARRIER
    predicates = warp.get(Warp.BARRIER_RESULT)
    result = []
    for lane in lanes_of(mask):
        place = 0 if together else lane
        kind = int(kinds[place])
        predicate = bool(predicates >> lane & 1) if together else bool(kind >> 8 & 1)
        result.append(
            _Waiting(
                warp, index, lane, int(names[place]), int(counts[place]), kind & 0xFF, predicate, int(sites[place])
            )
        )
    return result


def _release(one: _Waiting) -> None:
    warp = one.warp
    warp.set(Warp.BARRIER_MASK, warp.get(Warp.BARRIER_MASK) & ~(1 << one.lane))
    # A warp that waits as a whole is released as a whole: all its lanes wait at one barrier.
    warp.set(Warp.STATUS, Status.READY)


def _reduce(lanes: list[_Waiting]) -> None:
    """Give the lanes of a ``bar.red`` its result."""
    kind = lanes[0].kind
    if kind == BarrierKind.SYNC:
        return
    agreeing = sum(one.predicate for one in lanes)
    result = {
        BarrierKind.RED_POPC: agreeing,
        BarrierKind.RED_AND: int(agreeing == len(lanes)),
        BarrierKind.RED_OR: int(agreeing > 0),
    }[BarrierKind(kind)]
    for one in lanes:
        together = one.warp.get(Warp.STATUS) == Status.BARRIER
        one.warp.row(Warp.BARRIER_COUNT)[0 if together else one.lane] = result
