"""``barrier.cluster`` (PTX ISA section 9.7.13.4): a barrier of all threads of a cluster that have not exited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from gpuemu_lsp.engine.emulator.abi.records import lanes_of
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.state import Incident, LaunchReport

RULE: Final = "sync/barrier-divergence"

WarpName: TypeAlias = tuple[int, int]
"""A warp of a cluster: the rank of its block, and its own index there."""


class ClusterBarrier:
    """The barrier of the cluster that is resident; lanes of a warp are bits of a mask."""

    def __init__(self, report: LaunchReport) -> None:
        self._report = report
        self._arrived: dict[WarpName, int] = {}
        self._over: dict[WarpName, int] = {}

    def start(self) -> None:
        """Begin with a new cluster."""
        self._arrived.clear()
        self._over.clear()

    @property
    def arrived(self) -> int:
        """Threads that have arrived in the current phase."""
        return sum(mask.bit_count() for mask in self._arrived.values())

    def arrive(self, warp: WarpName, lanes: int, site: int, block: int) -> None:
        """Let lanes of a warp arrive; each may do so once in each phase."""
        twice = self._arrived.get(warp, 0) & lanes
        if twice:
            text = "this thread has arrived at the barrier of the cluster already: `barrier.cluster.wait` is missing"
            self._add(text, site, warp, twice, block)
        self._arrived[warp] = self._arrived.get(warp, 0) | lanes

    def passing(self, warp: WarpName, lanes: int, site: int, block: int) -> int:
        """Return those of the lanes that wait which may continue: the phase in which they arrived is over."""
        over = self._over.get(warp, 0) & lanes
        absent = lanes & ~over & ~self._arrived.get(warp, 0)
        if absent:
            text = "this waits for the barrier of the cluster without a `barrier.cluster.arrive` before it"
            self._add(text, site, warp, absent, block)
        self._over[warp] = self._over.get(warp, 0) & ~over
        return over | absent

    def complete(self, live: Mapping[WarpName, int]) -> bool:
        """End the phase if all lanes that have not exited have arrived; return whether it has ended."""
        if not any(live.values()) or any(mask & ~self._arrived.get(warp, 0) for warp, mask in live.items()):
            return False
        for warp, mask in self._arrived.items():
            self._over[warp] = self._over.get(warp, 0) | mask
        self._arrived.clear()
        return True

    def _add(self, text: str, site: int, warp: WarpName, lanes: int, block: int) -> None:
        self._report.add(Incident(RULE, text, site, warp[1] * WARP_SIZE + lanes_of(lanes)[0], block))
