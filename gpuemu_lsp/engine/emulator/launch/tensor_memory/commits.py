"""Commits of ``tcgen05``: arrivals at ``mbarrier`` objects that follow the operations of a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.devicelib.mbarrier import after_arrival, is_over
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import EventCaller
from gpuemu_lsp.engine.emulator.launch.setup import SPIN_QUANTUM
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import TensorAccess
from gpuemu_lsp.engine.emulator.launch.tma.races import Order

BarrierName: TypeAlias = tuple[int, int]
"""An ``mbarrier`` object: the number of its block, and its address."""
Tester: TypeAlias = tuple[int, int]
"""A warp that tests an object: the numbers of its block, and of the warp in it."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that has not arrived: the operations that it follows, its site, thread and block."""

    accesses: tuple[TensorAccess, ...]
    site: int
    thread: int
    block: int
    order: Order | None


class Commits:
    """The commits of one launch that have not arrived, by the ``mbarrier`` object that they arrive at.

    An object has the number of the block in whose shared memory it is, and its address.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._open: dict[tuple[int, int], list[TensorAccess]] = {}
        self._pending: dict[BarrierName, list[Commit]] = {}
        self._tests: dict[BarrierName, int] = {}

    def issue(self, access: TensorAccess) -> None:
        """Note an operation that the next commit of its thread follows."""
        self._open.setdefault((access.block, access.thread), []).append(access)

    def commit(self, barriers: Iterable[BarrierName], caller: EventCaller, thread: int, order: Order | None) -> None:
        """Commit all operations of a thread that are not complete, those of earlier commits included."""
        name = caller.block, thread
        accesses = self._open[name] = [one for one in self._open.get(name, ()) if not one.done]
        for barrier in barriers:
            for access in accesses:
                access.barrier = barrier[1] if access.barrier is None else access.barrier
            commit = Commit(tuple(accesses), caller.site, thread, caller.block, order)
            self._pending.setdefault(barrier, []).append(commit)

    def deliver(
        self, barrier: BarrierName, tester: Tester, operand: int, arrived: Callable[[Commit], None], *, by_parity: bool
    ) -> None:
        """Let commits arrive at an object before a test of it by a warp, until the tested phase is over.

        ``arrived`` is called before each. On a GPU the operations take so long that every warp which waits sees the end
        of each phase. A warp that tests what it has committed itself therefore waits until others had their turn:
        otherwise it would be two phases ahead before they test the first, which then seems not to be over.
        """
        waiting = self._pending.get(barrier)
        while waiting:
            word = self._arena.data(barrier[1], 8).view("u8")
            if is_over(int(word[0]), operand, by_parity=by_parity):
                return
            self._tests[barrier] = self._tests.get(barrier, 0) + 1
            if self._tests[barrier] <= SPIN_QUANTUM and tester == (waiting[0].block, waiting[0].thread // WARP_SIZE):
                return
            self._tests.pop(barrier)
            commit = waiting.pop(0)
            arrived(commit)
            word[0] = after_arrival(int(word[0]))
            for access in commit.accesses:
                access.done = True
