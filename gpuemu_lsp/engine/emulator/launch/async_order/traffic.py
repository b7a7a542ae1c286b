"""The state of a launch's shared memory, common to the checks; and the reports of these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.access_messages import demangled
from gpuemu_lsp.engine.emulator.launch.async_order.arrivals import BarrierObject, GroupName
from gpuemu_lsp.engine.emulator.launch.async_order.operands import CHUNK, Indices
from gpuemu_lsp.engine.emulator.launch.async_order.products import WarpGroup
from gpuemu_lsp.engine.emulator.launch.async_order.tiles import SharedTiles
from gpuemu_lsp.engine.emulator.launch.state import Incident, PreparedLaunch
from gpuemu_lsp.engine.emulator.launch.tma.races import AsyncRaces
from gpuemu_lsp.engine.emulator.launch.tma.targets import CopyIssuer, row_values, uniform_value

ORDER: Final = "sync/async-order"
MISUSE: Final = "sync/mbarrier"
FENCE: Final = "sync/proxy-fence"
LAYOUT: Final = "memory/tile-layout"
UNINITIALISED: Final = "memory/uninitialized-read"


@dataclass(slots=True)
class PendingStore:
    """A bulk copy out of shared memory that its thread has not waited for; ``group`` is None before its commit.

    ``epoch`` is that of its reads in the race detector. ``fenced`` says whether no store to its source was without a
    fence when it was issued: one after that shows in the shadow.
    """

    site: int
    thread: int
    places: Indices
    epoch: int = 0
    group: int | None = None
    fenced: bool = True


@dataclass(slots=True)
class TensorWork:
    """An operation on tensor memory, which is complete some time after its issue: its instruction, thread and block.

    ``party`` is the thread of the race detector that stands for it, ``epoch`` that of its issue. ``barrier`` is the
    address of the ``mbarrier`` object of the first commit behind it, None before that. ``done`` says that a thread has
    waited for it: others come after it if their clocks say so.
    """

    site: int
    thread: int
    block: int
    party: int
    epoch: int
    barrier: int | None = None
    done: bool = False


@dataclass(slots=True)
class OperandRead:
    """What an operation on tensor memory reads in shared memory.

    ``numbers`` are those of its chunks, of the shape (chunks,). ``fenced`` says whether no store to them was without a
    fence when it was issued: one after that shows in the shadow.
    """

    work: TensorWork
    name: str
    numbers: Indices
    fenced: bool


@dataclass(slots=True)
class BlockTraffic:
    """The state of one block; ``fenced`` has the shape (chunks of shared memory,)."""

    tiles: SharedTiles
    fenced: npt.NDArray[np.bool_]
    """The chunks that threads have stored and a fence between the proxies has made visible, until a copy overwrites
    them."""
    groups: dict[int, WarpGroup] = field(default_factory=dict)
    barriers: dict[int, BarrierObject] = field(default_factory=dict)
    stores: list[PendingStore] = field(default_factory=list)
    commits: dict[int, int] = field(default_factory=dict)
    reads: dict[tuple[int, bytes], OperandRead] = field(default_factory=dict)
    """The last reads by operations on tensor memory, by party and chunks."""
    known: dict[tuple[int, GroupName], tuple[int, int]] = field(default_factory=dict)
    """By warp and warp group: products issued and completed at the arrival that the warp last waited for."""


class EventCaller(NamedTuple):
    """The warp that an event comes from, with the operands of its lanes in scratch space."""

    context: int
    site: int
    lanes: tuple[int, ...]
    block: int
    window: int
    warp: int

    def values(self, row: int) -> list[int]:
        """Return a row of the operands, a value for each lane that executes."""
        return row_values(self.context, row, self.lanes)

    def value(self, row: int) -> int | None:
        """Return the value that a row of the operands has for all lanes that execute, None if they differ."""
        if len(self.lanes) == WARP_SIZE:
            return uniform_value(self.context, row)
        values = set(self.values(row))
        return values.pop() if len(values) == 1 else None

    def thread(self, index: int = 0) -> int:
        """Return the number in its block of one of the executing threads."""
        return self.warp * WARP_SIZE + self.lanes[index]


class SharedTraffic:
    """The blocks of a launch, their shared memory, and the incidents found so far."""

    def __init__(self, prepared: PreparedLaunch, races: AsyncRaces) -> None:
        self.prepared, self.arena, self.races = prepared, prepared.arena, races
        self.sites, self.program = prepared.kernel.sites, prepared.kernel.program
        self.blocks: dict[int, BlockTraffic] = {}
        self.incidents: list[Incident] = []
        self.unfenced: list[Incident] = []
        self.fences_reads = False
        """Whether the proxy has read bytes that threads had stored before a fence: the program does not rely on
        barriers alone."""
        self.explained: set[int] = set()
        self.size = prepared.launch.get(LaunchRecord.SHARED_SIZE)

    def block(self, number: int) -> BlockTraffic:
        """Return the state of a block."""
        found = self.blocks.get(number)
        if found is None:
            # Blocks run in order, and few at a time: what an old one did is of no further use.
            if len(self.blocks) > 512:
                self.blocks.pop(next(iter(self.blocks)))
            chunks = np.full(self.size // CHUNK + 1, -1, dtype=np.int64)
            found = self.blocks[number] = BlockTraffic(SharedTiles(chunks), np.zeros(chunks.size, dtype=np.bool_))
        return found

    def add(self, caller: EventCaller | CopyIssuer, rule: str, message: str, other: int | None = None) -> None:
        """Add an incident at an instruction, with the site of a second one."""
        self.incidents.append(_incident(caller, rule, message, other))

    def waited_for(self, work: TensorWork, context: int | None) -> bool:
        """Return whether a warp comes after the end of an operation on tensor memory.

        It does if it has waited for it, or has synchronised with one that had. ``context`` is that of the warp. Where
        races are not looked for, it is enough that something has waited.
        """
        if context is None or not work.done or not self.races.active:
            return work.done
        return self.races.knows(context, work.party, work.epoch)

    def missing_wait(self, work: TensorWork) -> str:
        """Return what a warp lacks that does not come after the end of a product or a copy."""
        if work.barrier is None:
            return "no `tcgen05.commit` follows it"
        start = "nothing orders this behind a wait" if work.done else "nothing has waited"
        return f"{start} for the mbarrier at {self.barrier_place(work.barrier)} that its commit arrives at"

    def owner(self, address: int, caller: EventCaller) -> int:
        """Return the number of the block whose shared memory has an address, in doubt that of the caller."""
        found = self.prepared.shared_owner(address) if self.prepared.cluster_blocks > 1 else None
        return caller.block if found is None else found.number

    def place(self, offset: int) -> str:
        """Return a byte of shared memory as one of the variable that contains it."""
        slots = [(slot.offset, slot.size, name) for name, slot in self.program.shared.items()]
        for start, size, name in slots:
            if start <= offset < start + (size or self.size):
                return f"byte {offset - start} of `{demangled(name)}`"
        return f"byte {offset} of shared memory"

    def barrier_place(self, address: int) -> str:
        """Return an ``mbarrier`` object as one of the variable that contains it, by its address in the arena."""
        windows = (one.shared.address for one in self.prepared.residents)
        return self.place(address - min(windows, key=lambda window: abs(address - window)))

    def line(self, site: int) -> str:
        """Return the source line of a site as the end of a phrase, empty if it is not known."""
        instruction = self.sites[site][0]
        location = instruction.location if instruction is not None else None
        return f" in line {location.line_of_kernel_file}" if location is not None else ""

    def state(self, address: int) -> int:
        """Return the bits of an ``mbarrier`` object, 0 if there is no memory for one."""
        if address % 8 or not self.arena.contains(address, 8):
            return 0
        return int(self.arena.data(address, 8).view(np.uint64)[0])

    def bits(self, window: int, places: Indices, bit: int) -> int:
        """Return how many bytes have a bit of their shadow set; places outside of shared memory have none."""
        places = places[(places >= 0) & (places < self.size)]
        return int((self.arena.shadow(window, self.size)[places] & bit != 0).sum())

    def has_stores(self, window: int) -> bool:
        """Return whether threads have stored to a block's shared memory since the last fence between the proxies."""
        return bool((self.arena.shadow(window, self.size) & Shadow.WRITTEN).any())

    def writer(self, window: int, places: Indices) -> int | None:
        """Return the site of a store to one of some bytes that no fence has followed, None if it is not known."""
        stored = places[self.arena.shadow(window, self.size)[places] & Shadow.WRITTEN != 0]
        return self.races.writer(window + int(stored.min())) if stored.size else None

    def fence(self, caller: EventCaller) -> None:
        """Make all stores to a block's shared memory visible to the proxy."""
        shadow = self.arena.shadow(caller.window, self.size)
        written = np.flatnonzero(shadow & Shadow.WRITTEN)
        self.block(caller.block).fenced[written // CHUNK] = True
        shadow[written] &= 255 & ~Shadow.WRITTEN

    def follow_read(self, block: BlockTraffic, numbers: Indices) -> None:
        """Follow a read by the proxy of some chunks of a block."""
        self.fences_reads = self.fences_reads or bool(block.fenced[numbers].any())

    def unfenced_reads(self) -> list[Incident]:
        """Return the reads without a fence that are to be reported.

        Published kernels rely on a barrier between the stores of threads and what the proxy reads. A program that has
        fences elsewhere does not.
        """
        return self.unfenced if self.fences_reads or self.prepared.request.checks.strict_fences else []

    def check_fenced(self, caller: EventCaller | CopyIssuer, places: Indices, what: str) -> bool:
        """Note bytes that threads have stored with no fence between the proxies since; return if there are none."""
        count = self.bits(caller.window, places, Shadow.WRITTEN)
        # Copies by cp.async belong to neither proxy here: kernels multiply what they bring without a fence.
        if count and not self.program.has_async_copies:
            text = (
                f"{what} {count} bytes of shared memory, from {self.place(int(places.min()))} on, that stores of "
                "threads have written: no `fence.proxy.async` is between them, so that the asynchronous proxy may "
                "see older values"
            )
            self.unfenced.append(_incident(caller, FENCE, text, self.writer(caller.window, places)))
        return not count

    def explain(self, site: int) -> None:
        """Suppress the reports of single loads of this instruction."""
        instruction = self.sites[site][0]
        if instruction is not None:
            self.explained.add(instruction.text_line)


def _incident(caller: EventCaller | CopyIssuer, rule: str, message: str, other: int | None = None) -> Incident:
    thread = caller.thread() if isinstance(caller, EventCaller) else caller.thread
    block = caller.block if isinstance(caller, EventCaller) else caller.home
    return Incident(rule, message, caller.site, thread, block, other)
