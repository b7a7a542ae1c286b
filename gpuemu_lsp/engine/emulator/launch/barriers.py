"""Resolution of barriers and warp collectives when no warp of a block can execute.

The generated block scheduler releases a ``bar.sync`` of all threads at one instruction by itself. Everything else comes
here: barriers with a thread count, ``bar.arrive`` and ``bar.red``, barriers after some threads have exited, threads at
different barrier instructions, and collectives whose mask names lanes that never come. Where hardware would accept what
the CUDA programming guide forbids, or would hang, an incident is reported and the launch goes on if it can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.abi.records import RecordView, lanes_of
from gpuemu_lsp.engine.emulator.abi.states import BarrierKind, Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import CLUSTER_BARRIER, GROUP_BARRIER
from gpuemu_lsp.engine.emulator.launch.cluster_barrier import ClusterBarrier, WarpName
from gpuemu_lsp.engine.emulator.launch.state import Incident, LaunchReport, PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks

_ALL_LANES = (1 << WARP_SIZE) - 1


class BarrierAssumptionError(Exception):
    """Threads waited at different barrier instructions, although races were excluded assuming that they do not."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Lanes of one warp that wait at the same barrier instruction, as the bits of ``mask``.

    ``index`` is the warp's number, ``expected`` the barrier's thread count or 0. ``predicates`` are the bits of the
    lanes whose predicate of a ``bar.red`` is true.
    """

    warp: RecordView
    index: int
    mask: int
    barrier: int
    expected: int
    kind: int
    site: int
    predicates: int = 0

    @property
    def count(self) -> int:
        """Return the number of lanes."""
        return self.mask.bit_count()

    @property
    def threads(self) -> list[int]:
        """Return the lanes as indices of threads in the block."""
        return [self.index * WARP_SIZE + lane for lane in lanes_of(self.mask)]


class BarrierResolver:
    """Releases the barriers of one launch's blocks; incidents go to ``report``."""

    def __init__(self, prepared: PreparedLaunch, clocks: VectorClocks, report: LaunchReport) -> None:
        self._prepared, self._clocks, self._report = prepared, clocks, report
        self._cluster = ClusterBarrier(report)

    def start_cluster(self) -> None:
        """Begin with a new cluster, of which the barrier is another one."""
        self._cluster.start()

    def end_cluster_phase(self, live: Mapping[WarpName, int]) -> bool:
        """End the phase of the cluster's barrier if all ``live`` lanes have arrived; return whether it has ended."""
        return self._cluster.complete(live)

    def resolve(self, resident: ResidentBlock, warps: list[RecordView]) -> bool:
        """Release what can be released; if nothing can, execute a partial collective; if none, report a deadlock.

        Return whether anything was released; in a cluster of several blocks, whose other blocks may help, a deadlock is
        reported by :meth:`report_deadlock`.

        Raises
        ------
        BarrierAssumptionError
            If the launch must start again with more accesses instrumented.
        """
        progress, waiting = self._released(resident, warps)
        if not progress:
            progress = self._force_collectives(resident, warps)
        if not progress and self._prepared.cluster_blocks == 1:
            self._report_deadlock(resident, waiting)
        return progress

    def report_deadlock(self, resident: ResidentBlock, warps: list[RecordView], threads: int) -> None:
        """Report what the threads of a block wait for; ``threads`` of the cluster have not exited."""
        waiting = [group for index, warp in enumerate(warps) for group in _waiting_lanes(index, warp)]
        self._report_deadlock(resident, waiting, threads)

    def release(self, resident: ResidentBlock, warps: list[RecordView]) -> None:
        """Release the barriers that are complete, while other warps execute.

        Raises
        ------
        BarrierAssumptionError
            If the launch must start again with more accesses instrumented.
        """
        self._released(resident, warps)

    def _released(self, resident: ResidentBlock, warps: list[RecordView]) -> tuple[bool, list[_Waiting]]:
        """Release what can be released; return whether anything was, and the lanes that waited without arriving."""
        progress = self._attend_cluster(resident, warps)
        progress |= _release_groups(warps)
        waiting = [
            group
            for index, warp in enumerate(warps)
            if warp.get(Warp.STATUS) != Status.BARRIER or warp.row(Warp.BARRIER_ID)[0] != CLUSTER_BARRIER
            for group in _waiting_lanes(index, warp)
            if group.barrier != CLUSTER_BARRIER
        ]
        arriving = [group for group in waiting if group.kind == BarrierKind.ARRIVE]
        # Arrivals first: they may complete a barrier at which others wait.
        for group in arriving:
            resident.arrivals[group.barrier] = resident.arrivals.get(group.barrier, 0) + group.count
            for thread in group.threads:
                self._clocks.arrive(resident, group.barrier, thread)
            _release(group)
        waiting = [group for group in waiting if group.kind != BarrierKind.ARRIVE]
        by_barrier: dict[int, list[_Waiting]] = defaultdict(list)
        for group in waiting:
            by_barrier[group.barrier].append(group)
        live = _live_threads(warps)
        progress |= bool(arriving)
        for barrier, groups in by_barrier.items():
            progress |= self._try_release(resident, barrier, groups, live)
        return progress, waiting

    def _attend_cluster(self, resident: ResidentBlock, warps: list[RecordView]) -> bool:
        """Let warps arrive at the barrier of the cluster, or pass it; return whether any lane continues."""
        at_barrier = [
            (index, *found[1:]) for index, warp in enumerate(warps) if (found := _at_cluster_barrier(warp))[0]
        ]
        if not at_barrier:
            return False
        rank = next(rank for rank, one in enumerate(self._prepared.residents) if one is resident)
        progress = False
        for index, arriving, waiting, site in at_barrier:
            if arriving:
                self._cluster.arrive((rank, index), arriving, site, resident.number)
            # A cluster of one block is complete when its own threads have come; of several the schedule decides.
            if self._prepared.cluster_blocks == 1:
                live = {(rank, number): live_mask(warp) for number, warp in enumerate(warps)}
                if self._cluster.complete(live):
                    self._clocks.synchronise_cluster([resident])
            passing = self._cluster.passing((rank, index), waiting, site, resident.number) if waiting else 0
            released = arriving | passing
            if released:
                warp = warps[index]
                warp.set(Warp.BARRIER_MASK, warp.get(Warp.BARRIER_MASK) & ~released)
                warp.set(Warp.STATUS, Status.READY)
                progress = True
        return progress

    def _try_release(self, resident: ResidentBlock, barrier: int, groups: list[_Waiting], live: int) -> bool:
        waiting = _count(groups)
        expected = max(group.expected for group in groups)
        # Without a thread count the barrier is for all threads. Exited ones are not waited for, as on hardware.
        if expected:
            if waiting + resident.arrivals.get(barrier, 0) < expected:
                return False
        elif waiting < live:
            return False
        if self._clocks.assumes_full_barriers and len({group.site for group in groups}) > 1:
            raise BarrierAssumptionError
        resident.arrivals.pop(barrier, None)
        # The barrier of a warp group in wgmma.wait_group orders no accesses of its threads.
        if barrier < GROUP_BARRIER:
            self._check_divergence(resident, groups, live, expected)
            threads = [thread for group in groups for thread in group.threads]
            self._clocks.synchronise(resident, barrier, threads, live)
        _reduce(groups)
        for group in groups:
            _release(group)
        return True

    def _check_divergence(self, resident: ResidentBlock, groups: list[_Waiting], live: int, expected: int) -> None:
        """Report a barrier that not all threads of the block execute, or not at the same place.

        It happens to work on hardware: barriers are counted by warps, and identified by number. CUDA leaves it
        undefined for ``__syncthreads()``, which is ``bar.sync 0``. PTX identifies a barrier by its number alone
        (section 9.7.13.1): warps that have different roles meet at one that is numbered, or not ``.aligned``, from
        different places.
        """
        first, waiting = groups[0], _count(groups)
        if not expected and waiting < self._prepared.threads:
            exited = self._prepared.threads - live
            message = f"divergent barrier: {waiting} threads wait here after {exited} other threads have exited"
            self._add_divergence(message, first, resident)
            return
        if expected or first.barrier or not all(self._is_aligned(group.site) for group in groups):
            return
        # By source line, not by site: NVRTC duplicates a barrier when it unrolls a loop or clones a branch.
        elsewhere = _count([group for group in groups if self._line(group.site) != self._line(first.site)])
        if elsewhere:
            message = f"divergent barrier: {waiting - elsewhere} threads wait here, {elsewhere} at another barrier"
            self._add_divergence(message, first, resident)

    def _add_divergence(self, message: str, first: _Waiting, resident: ResidentBlock) -> None:
        incident = Incident("sync/barrier-divergence", message, first.site, first.threads[0], resident.number)
        self._report.add(incident)

    def _is_aligned(self, site: int) -> bool:
        """Return whether a barrier is ``bar``, or ``barrier`` with ``.aligned``, which is the same."""
        instruction = self._prepared.kernel.sites[site][0]
        return instruction is None or instruction.opcode == "bar" or "aligned" in instruction.modifiers

    def _line(self, site: int) -> tuple[int, int] | int:
        instruction = self._prepared.kernel.sites[site][0]
        location = instruction.location if instruction is not None else None
        return (location.file, location.line) if location is not None else site

    def _force_collectives(self, resident: ResidentBlock, warps: list[RecordView]) -> bool:
        """Execute collectives with the lanes that have arrived, where lanes of the mask can no longer come."""
        progress = False
        for index, warp in enumerate(warps):
            mask = warp.get(Warp.COLLECTIVE_MASK)
            if warp.get(Warp.STATUS) != Status.BLOCKED or not mask:
                continue
            lane = lanes_of(mask)[0]
            number = int(warp.row(Warp.PC)[lane])
            message = "a lane in the member mask never executes this instruction"
            site = self._prepared.kernel.site_of_block(number)
            thread = index * WARP_SIZE + lane
            self._report.add(Incident("sync/missing-warp-mask", message, site, thread, resident.number))
            warp.set(Warp.COLLECTIVE_MASK, 0)
            warp.set(Warp.FORCE_COLLECTIVE, 1)
            warp.set(Warp.STATUS, Status.READY)
            progress = True
        return progress

    def _report_deadlock(self, resident: ResidentBlock, waiting: list[_Waiting], threads: int = 0) -> None:
        self._report.status = "hung"
        by_place: dict[tuple[int, int], list[_Waiting]] = defaultdict(list)
        for group in waiting:
            by_place[group.barrier, group.site].append(group)
        for (barrier, site), groups in by_place.items():
            count, first = _count(groups), groups[0].threads[0]
            expected = groups[0].expected or self._prepared.threads
            if barrier == CLUSTER_BARRIER:
                message = (
                    f"deadlock: {count} threads wait at the barrier of the cluster; {self._cluster.arrived} of "
                    f"{threads} threads have arrived, and no other can"
                )
                self._report.add(Incident("sync/deadlock", message, site, first, resident.number))
                continue
            where = "at this `wgmma.wait_group`, which all four warps of a group execute"
            where = f"at barrier {barrier}" if barrier < GROUP_BARRIER else where
            message = f"deadlock: {count} of {expected} threads wait {where}, and no other can arrive"
            self._report.add(Incident("sync/deadlock", message, site, first, resident.number))


def _release_groups(warps: list[RecordView]) -> bool:
    """Release warp groups of which all lanes of all warps have come to their barrier; return whether there are any.

    It orders no accesses of threads, and is that of ``wgmma.wait_group``: every product loop has one.
    """
    found = False
    for first in range(0, len(warps) - 3, 4):
        group = warps[first : first + 4]
        number = GROUP_BARRIER + first // 4
        if all(
            warp.get(Warp.STATUS) == Status.BARRIER
            and warp.get(Warp.BARRIER_ID) == number
            and warp.get(Warp.BARRIER_MASK) == _ALL_LANES
            for warp in group
        ):
            for warp in group:
                warp.set(Warp.BARRIER_MASK, 0)
                warp.set(Warp.STATUS, Status.READY)
            found = True
    return found


def _live_threads(warps: list[RecordView]) -> int:
    """Return the number of threads of a block that have not exited."""
    return sum(live_mask(warp).bit_count() for warp in warps)


def live_mask(warp: RecordView) -> int:
    """Return the lanes of a warp that have not exited."""
    # A warp that has ended no longer updates its mask, and one that has not started has not set it.
    if warp.get(Warp.STATUS) == Status.DONE:
        return 0
    return warp.get(Warp.THREAD_MASK if warp.get(Warp.RESUME) == Resume.START else Warp.LIVE_MASK)


def _at_cluster_barrier(warp: RecordView) -> tuple[int, int, int, int]:
    """Return the lanes of a warp at the barrier of the cluster: all, those that arrive or wait; and the site."""
    status = warp.get(Warp.STATUS)
    mask = warp.get(Warp.BARRIER_MASK) if status in (Status.BARRIER, Status.BLOCKED) else 0
    if not mask:
        return 0, 0, 0, 0
    barriers, kinds, sites = warp.row(Warp.BARRIER_ID), warp.row(Warp.BARRIER_KIND), warp.row(Warp.BARRIER_SITE)
    if status == Status.BARRIER:
        if barriers[0] != CLUSTER_BARRIER:
            return 0, 0, 0, 0
        arrives = kinds[0] == BarrierKind.ARRIVE
        return mask, mask if arrives else 0, 0 if arrives else mask, int(sites[0])
    lanes = [lane for lane in lanes_of(mask) if barriers[lane] == CLUSTER_BARRIER]
    arriving = sum(1 << lane for lane in lanes if kinds[lane] & 0xFF == BarrierKind.ARRIVE)
    everything = sum(1 << lane for lane in lanes)
    return everything, arriving, everything & ~arriving, int(sites[lanes[0]]) if lanes else 0


def _waiting_lanes(index: int, warp: RecordView) -> list[_Waiting]:
    """Return the lanes of a warp that wait at barriers, those at one instruction together."""
    status = warp.get(Warp.STATUS)
    mask = warp.get(Warp.BARRIER_MASK) if status in (Status.BARRIER, Status.BLOCKED) else 0
    if not mask:
        return []
    rows = [warp.row(row) for row in (Warp.BARRIER_ID, Warp.BARRIER_COUNT, Warp.BARRIER_KIND, Warp.BARRIER_SITE)]
    if status == Status.BARRIER:
        # A converged warp stores one description of the barrier, in the first elements, and its predicates as a mask.
        barrier, expected, kind, site = (int(row[0]) for row in rows)
        predicates = warp.get(Warp.BARRIER_RESULT) & mask
        return [_Waiting(warp, index, mask, barrier, expected, kind & 0xFF, site, predicates)]
    groups: dict[tuple[int, int, int, int], list[int]] = {}
    for lane in lanes_of(mask):
        barrier, expected, kind, site = (int(row[lane]) for row in rows)
        bits = groups.setdefault((barrier, expected, kind & 0xFF, site), [0, 0])
        bits[0] |= 1 << lane
        bits[1] |= (kind >> 8 & 1) << lane
    return [
        _Waiting(warp, index, lanes, barrier, expected, kind, site, predicates)
        for (barrier, expected, kind, site), (lanes, predicates) in groups.items()
    ]


def _count(groups: list[_Waiting]) -> int:
    """Return the number of lanes."""
    return sum(group.count for group in groups)


def _release(group: _Waiting) -> None:
    warp = group.warp
    warp.set(Warp.BARRIER_MASK, warp.get(Warp.BARRIER_MASK) & ~group.mask)
    # A warp that waits as a whole is released as a whole: all its lanes wait at one barrier.
    warp.set(Warp.STATUS, Status.READY)


def _reduce(groups: list[_Waiting]) -> None:
    """Give the lanes of a ``bar.red`` its result, in place of the thread count, which is no longer needed."""
    kind = groups[0].kind
    if kind == BarrierKind.SYNC:
        return
    true = sum(group.predicates.bit_count() for group in groups)
    result = {
        BarrierKind.RED_POPC: true,
        BarrierKind.RED_AND: int(true == _count(groups)),
        BarrierKind.RED_OR: int(true > 0),
    }[BarrierKind(kind)]
    for group in groups:
        converged = group.warp.get(Warp.STATUS) == Status.BARRIER
        counts = group.warp.row(Warp.BARRIER_COUNT)
        for element in (0,) if converged else lanes_of(group.mask):
            counts[element] = result
