"""The outer scheduler: what the inner one cannot decide. Odd barriers, lanes on their own, spinning blocks, hangs."""

from __future__ import annotations

import ctypes
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from gpuemu_lsp.engine.emulator import jit
from gpuemu_lsp.engine.emulator.codegen.linked import RUNTIME
from gpuemu_lsp.engine.emulator.layout import BarrierKind, Launch, Resume, Status, Warp
from gpuemu_lsp.engine.emulator.ordering import Order
from gpuemu_lsp.engine.emulator.program import EXIT
from gpuemu_lsp.engine.emulator.records import lanes_of
from gpuemu_lsp.engine.emulator.setup import MEETINGS, YIELDS, Context, Prepared, Resident
from gpuemu_lsp.engine.emulator.shapes import WARP
from gpuemu_lsp.engine.emulator.tiers import Code, Seen

_PATIENCE = 6
"""How often a block may use up its yields before other blocks are started beside it."""

_MAX_RESIDENT = 256

_FIRST_BLOCKS = 8
"""Blocks run before the time for all of them is first estimated; the stretches double."""


class AssumptionError(Exception):
    """Specialised code met a case it was not made for; ``site`` says where."""

    def __init__(self, site: int) -> None:
        super().__init__(site)
        self.site = site


class DistrustError(Exception):
    """Threads met at different barriers of the program, and the race checker counted on their not doing so."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something the scheduler saw: a rule, a sentence, and a site; ``thread`` is linear in its block."""

    rule: str
    message: str
    site: int
    thread: int
    block: int


@dataclass(slots=True)
class Report:
    """How a launch ended: ``completed``, ``hung`` or ``stopped``."""

    status: str = "completed"
    incidents: dict[tuple[str, int], Incident] = field(default_factory=dict)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    steps: int = 0

    def add(self, incident: Incident) -> None:
        """Note an incident; the first of each rule and site is kept."""
        key = incident.rule, incident.site
        self.incidents.setdefault(key, incident)
        self.counts[key] += 1


@dataclass(slots=True)
class _Waiting:
    """A lane at a barrier."""

    warp: Context
    index: int
    lane: int
    name: int
    count: int
    kind: int
    predicate: bool
    site: int


class Scheduler:
    """Runs one prepared launch."""

    def __init__(self, prepared: Prepared, order: Order, code: Code) -> None:
        self._prepared = prepared
        self._order = order
        self._code = code
        self._stretch = _FIRST_BLOCKS
        self._began = time.monotonic()
        self._report = Report()
        self._conduct = jit.function(RUNTIME.address("conduct"), ctypes.c_void_p)
        self._deadline = self._began + prepared.request.max_seconds
        self._ended = False
        self._parted = 0
        prepared.launch.set64(Launch.FUNCTION, code.fast or code.general())
        prepared.launch.set64(Launch.PLAIN, code.plain)

    def run(self) -> Report:
        """Run all blocks.

        Raises
        ------
        AssumptionError, DistrustError
            If the launch must be started again with another translation.
        """
        prepared = self._prepared
        residents = prepared.residents
        upcoming = 0
        while not self._ended:
            if len(residents) == 1 and not residents[0].under_way:
                upcoming = self._run_alone(residents[0], upcoming)
                if upcoming >= prepared.blocks and not residents[0].under_way:
                    break
                to_come = self._elapsed() * (prepared.blocks - upcoming) / max(upcoming, 1)
                self._consider(to_come, self.seen(upcoming))
                self._stretch *= 2
                continue
            upcoming = self._run_together(upcoming)
        self._report.steps = self._steps()
        return self._report

    # ---- which block runs --------------------------------------------------------------------------------------------

    def _run_alone(self, resident: Resident, upcoming: int) -> int:
        """Run blocks one after another until all have ended or one is stuck; return the next block's number."""
        launch = self._prepared.launch
        self._prepared.focus(resident)
        launch.set64(Launch.NEXT_BLOCK, upcoming)
        end = self._prepared.blocks if self._code.best else min(upcoming + self._stretch, self._prepared.blocks)
        launch.set64(Launch.BLOCK_END, end)
        launch.set32(Launch.IN_BLOCK, 0)
        seen = -1
        while not self._ended and self._conduct(launch.address):
            number = launch.i64(Launch.NEXT_BLOCK)
            if number != seen:
                seen, resident.asked = number, 0
                resident.arrivals.clear()
            resident.number = number
            spinning = self._attend(resident)
            if spinning and resident.asked > _PATIENCE and self._prepared.blocks > number + 1:
                resident.under_way = True
                return number + 1
        return launch.i64(Launch.NEXT_BLOCK)

    def _run_together(self, upcoming: int) -> int:
        """Give each resident block a turn; start one more when none ended."""
        prepared = self._prepared
        launch = prepared.launch
        progress = False
        for resident in prepared.residents:
            if self._ended:
                return upcoming
            if not resident.under_way:
                if upcoming >= prepared.blocks:
                    continue
                resident.number, resident.under_way, resident.asked = upcoming, True, 0
                resident.arrivals.clear()
                upcoming += 1
                launch.set32(Launch.IN_BLOCK, 0)
            else:
                launch.set32(Launch.IN_BLOCK, 1)
            prepared.focus(resident)
            launch.set64(Launch.NEXT_BLOCK, resident.number)
            launch.set64(Launch.BLOCK_END, resident.number + 1)
            launch.set32(Launch.YIELDS, 1)  # a block that waits for another one is not to wait for long
            launch.set32(Launch.MEETINGS, 1)
            while not self._ended:
                if not self._conduct(launch.address):
                    resident.under_way, progress = False, True
                    break
                if self._attend(resident):
                    break
        if not progress and upcoming < prepared.blocks and len(prepared.residents) < _MAX_RESIDENT:
            prepared.add_resident()
        if upcoming >= prepared.blocks and not any(r.under_way for r in prepared.residents):
            del prepared.residents[1:]
        return upcoming

    def _elapsed(self) -> float:
        """Return the milliseconds the launch has run, translations not counted."""
        return (time.monotonic() - self._began - self._code.seconds) * 1e3

    def seen(self, blocks: int) -> Seen:
        """Return what has been seen of lanes that part, in so many blocks."""
        prepared = self._prepared
        parted = prepared.parted.row32(0, len(prepared.kernel.program.blocks))
        return Seen(parted.tolist(), blocks * prepared.warp_count, prepared.launch.i32(Launch.APART))

    def _consider(self, milliseconds: float, seen: Seen | None = None) -> None:
        """Go on in optimised code if that pays for so much time."""
        better = self._code.improve(milliseconds, seen)
        if not better:
            return
        launch = self._prepared.launch
        launch.set64(Launch.PLAIN, self._code.plain)
        launch.set64(Launch.FUNCTION, better.get(launch.i64(Launch.FUNCTION), launch.i64(Launch.FUNCTION)))
        for resident in self._prepared.residents:
            for warp in self._warps(resident):
                now = warp.get64(Warp.FUNCTION)
                warp.set64(Warp.FUNCTION, better.get(now, now))

    def _steps(self) -> int:
        total = self._prepared.launch.i64(Launch.STEPS)
        for resident in self._prepared.residents:
            total += sum(warp.get64(Warp.STEPS) for warp in self._warps(resident))
        return total

    def _warps(self, resident: Resident) -> list[Context]:
        return [self._prepared.warp(resident, index) for index in range(self._prepared.warp_count)]

    # ---- one block that needs attention ------------------------------------------------------------------------------

    def _attend(self, resident: Resident) -> bool:
        """Decide what the warps of a block do next; return whether some only used up their time."""
        launch = self._prepared.launch
        yielded = launch.i32(Launch.MEETINGS) <= 0
        launch.set32(Launch.YIELDS, YIELDS)
        launch.set32(Launch.MEETINGS, MEETINGS)
        warps = self._warps(resident)
        for warp in warps:
            status = warp.get(Warp.STATUS)
            if status == Status.STOP:
                self._ended = True
                self._report.status = "stopped"
                return False
            if status == Status.ASSUME:
                raise AssumptionError(warp.get(Warp.EVENT_SITE))
            if status == Status.PART:
                self._hand_over(warp)
            elif status == Status.YIELD:
                yielded = True
                warp.set(Warp.STATUS, Status.READY)
        if self._over_budget(resident, warps):
            return False
        if yielded:
            resident.asked += 1
            self._consider(self._elapsed())
            return True
        if not any(warp.get(Warp.STATUS) == Status.READY for warp in warps):
            self._resolve(resident, warps)
        return False

    def _hand_over(self, warp: Context) -> None:
        """Let the general translation run a warp whose lanes must be independent."""
        self._parted += 1
        warp.set64(Warp.FUNCTION, self._code.general())
        warp.set(Warp.BAR_MASK, 0)
        warp.set(Warp.COLLECTIVE_MASK, 0)
        warp.set(Warp.STATUS, Status.READY)

    def _over_budget(self, resident: Resident, warps: list[Context]) -> bool:
        """End a launch that has used up its steps or its time: in a loop, whether that waits or not."""
        living = [(index, warp) for index, warp in enumerate(warps) if warp.get(Warp.STATUS) != Status.DONE]
        for index, warp in living:
            if warp.get64(Warp.STEPS) > self._prepared.request.max_steps:
                self._hang(resident, index, warp, "the step budget ran out in this loop")
                return True
        if living and time.monotonic() - self._code.seconds > self._deadline:
            index, warp = next((one for one in living if one[1].get(Warp.STATUS) == Status.READY), living[0])
            self._hang(resident, index, warp, "the time budget ran out in this loop")
            return True
        return False

    def _hang(self, resident: Resident, index: int, warp: Context, message: str) -> None:
        resume = warp.get(Warp.RESUME)
        if resume >= Resume.FIRST_BLOCK:
            number, lane = resume - Resume.FIRST_BLOCK, lanes_of(warp.mask(Warp.MASK) or 1)[0]
        else:
            runnable = warp.mask(Warp.ALIVE) & ~warp.mask(Warp.BAR_MASK)
            lane = lanes_of(runnable or 1)[0]
            number = int(warp.row(Warp.PC)[lane])
        number = number if 0 <= number < len(self._prepared.kernel.program.blocks) else 0
        site = self._first_located(number)
        self._report.add(Incident("sync/hang", message, site, index * WARP + lane, resident.number))
        self._report.status = "hung"
        self._ended = True

    def _first_located(self, number: int) -> int:
        """Return the first site from a block on that has a line: a lone jump has none, where it leads to has."""
        kernel = self._prepared.kernel
        start = kernel.site_of_block(number)
        seen: set[int] = set()
        while number >= 0 and number not in seen:
            seen.add(number)
            block, first = kernel.program.blocks[number], kernel.site_of_block(number)
            for site in range(first, first + len(block.code) + 1):
                instruction = kernel.sites[site][0]
                if instruction is not None and instruction.location is not None:
                    return site
            number = next(iter(block.targets), EXIT)
        return start

    # ---- nobody can run ----------------------------------------------------------------------------------------------

    def _resolve(self, resident: Resident, warps: list[Context]) -> None:
        """Open a barrier that is complete, or let an incomplete collective run, or give up."""
        waiting = [lane for index, warp in enumerate(warps) for lane in self._waiting(index, warp)]
        for lane in [one for one in waiting if one.kind == BarrierKind.ARRIVE]:
            resident.arrivals[lane.name] = resident.arrivals.get(lane.name, 0) + 1
            self._order.arrive(resident, lane.name, lane.index * WARP + lane.lane)
            self._release(lane)
        arriving = [one for one in waiting if one.kind == BarrierKind.ARRIVE]
        waiting = [one for one in waiting if one.kind != BarrierKind.ARRIVE]
        by_name: dict[int, list[_Waiting]] = defaultdict(list)
        for one in waiting:
            by_name[one.name].append(one)
        alive = self._alive(warps)
        opened = bool(arriving)
        for name, lanes in by_name.items():
            opened |= self._try_open(resident, name, lanes, alive)
        if not opened:
            opened = self._force_collective(resident, warps)
        if not opened:
            self._stuck(resident, waiting)

    def _alive(self, warps: list[Context]) -> int:
        living = (warp.mask(Warp.ALIVE) for warp in warps if warp.get(Warp.STATUS) != Status.DONE)
        return sum(mask.bit_count() for mask in living)

    def _waiting(self, index: int, warp: Context) -> list[_Waiting]:
        status = warp.get(Warp.STATUS)
        if status not in (Status.BARRIER, Status.BLOCKED):
            return []
        mask = warp.mask(Warp.BAR_MASK)
        names, counts = warp.row(Warp.BAR_ID), warp.row(Warp.BAR_COUNT)
        kinds, sites = warp.row(Warp.BAR_KIND), warp.row(Warp.BAR_SITE)
        together = status == Status.BARRIER
        predicates = warp.mask(Warp.BAR_RESULT)
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

    def _release(self, one: _Waiting) -> None:
        warp = one.warp
        mask = warp.mask(Warp.BAR_MASK) & ~(1 << one.lane)
        warp.set(Warp.BAR_MASK, mask)
        # A warp that waits as a whole is released as a whole: all its lanes wait at one barrier.
        warp.set(Warp.STATUS, Status.READY)

    def _try_open(self, resident: Resident, name: int, lanes: list[_Waiting], alive: int) -> bool:
        counts = {one.count for one in lanes}
        arrived = len(lanes) + resident.arrivals.get(name, 0)
        expected = max(counts)
        if expected:
            if arrived < expected:
                return False
        elif len(lanes) < alive:
            return False
        if self._order.trusting and len({one.site for one in lanes}) > 1:
            raise DistrustError
        self._check_meeting(resident, lanes, alive, expected)
        resident.arrivals.pop(name, None)
        self._order.meet(resident, name, [one.index * WARP + one.lane for one in lanes], alive)
        self._reduce(lanes)
        for one in lanes:
            self._release(one)
        return True

    def _check_meeting(self, resident: Resident, lanes: list[_Waiting], alive: int, expected: int) -> None:
        """Report what hardware lets pass, or hangs on: threads that have left, or wait at another barrier."""
        first = lanes[0]
        thread = first.index * WARP + first.lane
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

    def _reduce(self, lanes: list[_Waiting]) -> None:
        """Give the lanes of a ``bar.red`` its result."""
        kind = lanes[0].kind
        if kind == BarrierKind.SYNC:
            return
        agreeing = sum(one.predicate for one in lanes)
        result = {
            BarrierKind.RED_POPC: agreeing,
            BarrierKind.RED_AND: int(agreeing == len(lanes)),
            BarrierKind.RED_OR: int(agreeing > 0),
        }[kind]
        for one in lanes:
            together = one.warp.get(Warp.STATUS) == Status.BARRIER
            one.warp.row(Warp.BAR_COUNT)[0 if together else one.lane] = result

    def _force_collective(self, resident: Resident, warps: list[Context]) -> bool:
        """Let lanes run a collective although lanes it names will not come."""
        opened = False
        for index, warp in enumerate(warps):
            mask = warp.mask(Warp.COLLECTIVE_MASK)
            if warp.get(Warp.STATUS) != Status.BLOCKED or not mask:
                continue
            lane = lanes_of(mask)[0]
            number = int(warp.row(Warp.PC)[lane])
            message = "a lane that the mask names never gets to this warp-wide instruction"
            site = self._prepared.kernel.site_of_block(number)
            self._report.add(Incident("sync/missing-warp-mask", message, site, index * WARP + lane, resident.number))
            warp.set(Warp.COLLECTIVE_MASK, 0)
            warp.set(Warp.FORCE, 1)
            warp.set(Warp.STATUS, Status.READY)
            opened = True
        return opened

    def _stuck(self, resident: Resident, waiting: list[_Waiting]) -> None:
        self._ended = True
        self._report.status = "hung"
        places: dict[tuple[int, int], list[_Waiting]] = defaultdict(list)
        for one in waiting:
            places[one.name, one.site].append(one)
        for (name, site), lanes in places.items():
            expected = lanes[0].count or self._prepared.threads
            message = f"{len(lanes)} threads wait at barrier {name} for {expected}; no other thread can still arrive"
            thread = lanes[0].index * WARP + lanes[0].lane
            self._report.add(Incident("sync/deadlock", message, site, thread, resident.number))
