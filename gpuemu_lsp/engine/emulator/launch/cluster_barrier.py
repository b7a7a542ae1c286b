"""``barrier.cluster`` (PTX ISA section 9.7.13.4): a barrier of all threads of a cluster that have not exited."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.launch.state import Incident, LaunchReport

RULE = "sync/barrier-divergence"


class ClusterBarrier:
    """The barrier of the cluster that is resident; a thread is a pair of its block's rank and its index there."""

    def __init__(self, report: LaunchReport) -> None:
        self._report = report
        self._phase = 0
        self._arrived: dict[tuple[int, int], int] = {}

    def start(self) -> None:
        """Begin with a new cluster."""
        self._phase = 0
        self._arrived.clear()

    @property
    def arrived(self) -> int:
        """Threads that have arrived in the current phase."""
        return sum(phase == self._phase for phase in self._arrived.values())

    def arrive(self, thread: tuple[int, int], site: int, block: int) -> None:
        """Let a thread arrive; it may do so once in each phase."""
        if self._arrived.get(thread) == self._phase:
            text = "this thread has arrived at the barrier of the cluster already: `barrier.cluster.wait` is missing"
            self._report.add(Incident(RULE, text, site, thread[1], block))
        self._arrived[thread] = self._phase

    def may_pass(self, thread: tuple[int, int], site: int, block: int) -> bool:
        """Return whether a thread that waits may continue: the phase in which it arrived is over."""
        phase = self._arrived.get(thread)
        if phase is None:
            text = "this waits for the barrier of the cluster without a `barrier.cluster.arrive` before it"
            self._report.add(Incident(RULE, text, site, thread[1], block))
            return True
        if phase < self._phase:
            del self._arrived[thread]
            return True
        return False

    def complete(self, live: set[tuple[int, int]]) -> bool:
        """End the phase if all threads that have not exited have arrived; return whether it has ended."""
        if not live or any(self._arrived.get(thread) != self._phase for thread in live):
            return False
        self._phase += 1
        return True
