"""State of one launch: its records in memory, the blocks that are resident, and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.abi.fields import Field
from gpuemu_lsp.engine.emulator.abi.records import Record, RecordView
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.emulator.launch.device_runtime import Heap
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.execution import Access, Dim3, Request


@dataclass(slots=True)
class ResidentBlock:
    """Memory and records of a resident thread block: one that has started and not ended, or the next to start.

    ``ended`` is that of a block of a cluster, whose place is kept. ``arrivals`` counts, by barrier, the threads that
    arrived without waiting; ``yields`` how often the block has used up its time. ``moves`` counts turns
    after which its warps were not as after the turn before: it does not only wait for another block.
    ``last_contexts`` has the words of its warps' records then, flat.
    """

    record: Record
    warps: Record
    copies: Record | None
    shared: Region
    local: Region
    number: int = 0
    started: bool = False
    ended: bool = False
    arrivals: dict[int, int] = field(default_factory=dict)
    yields: int = 0
    moves: int = 0
    last_contexts: npt.NDArray[np.int64] | None = field(default=None, repr=False)

    def start(self, number: int) -> None:
        """Become the resident of another block."""
        self.number, self.started, self.yields, self.moves = number, True, 0, 0
        self.last_contexts = None
        self.arrivals.clear()


@dataclass(slots=True)
class PreparedLaunch:
    """A launch with its memory laid out, ready to run."""

    request: Request
    kernel: CompiledKernel
    arena: Arena
    launch: Record
    events: Record
    event_counts: Record
    highest_addresses: Record
    coverage: Record
    divergence_counts: Record
    readable_buffers: Record
    symbols: Record
    shared_shadow: Record
    buffers: dict[str, Region]
    module_variables: dict[str, Region]
    heap: Heap | None = None
    residents: list[ResidentBlock] = field(default_factory=list)
    """The resident blocks; where a cluster has several, by rank."""
    cluster: Dim3 = (1, 1, 1)
    free_windows: list[Region] = field(default_factory=list)
    """Shared memory that has been allocated for blocks of the cluster that are not resident yet."""
    on_growth: Callable[[], None] = lambda: None
    """Called when the arena has grown during the launch."""
    on_exit: Callable[[ResidentBlock], None] = lambda _: None
    """Called when a block of a cluster has ended, before its shared memory is withdrawn."""

    @property
    def threads(self) -> int:
        """Threads per block."""
        x, y, z = self.request.block
        return x * y * z

    @property
    def warp_count(self) -> int:
        """Warps per block."""
        return -(-self.threads // WARP_SIZE)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        x, y, z = self.request.grid
        return x * y * z

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster."""
        x, y, z = self.cluster
        return x * y * z

    def shared_owner(self, address: int) -> ResidentBlock | None:
        """Return the block of the cluster whose shared memory has an address, None if there is none."""
        for resident in self.residents:
            if resident.shared.address <= address < resident.shared.address + resident.shared.size:
                return resident
        return None

    def warp(self, resident: ResidentBlock, index: int) -> RecordView:
        """Return the context of one warp."""
        return resident.warps.at(index * self.kernel.context_bytes)

    def warp_values(self, resident: ResidentBlock, field: Field) -> npt.NDArray[np.integer]:
        """Return a field of the context of each warp; a view of their memory."""
        return resident.warps.column(field, self.kernel.context_bytes, self.warp_count)

    def focus(self, resident: ResidentBlock) -> None:
        """Make the generated block scheduler execute this block."""
        stride = self.kernel.context_bytes
        descending = self.request.descending
        first = (self.warp_count - 1) * stride if descending else 0
        self.launch.set(LaunchRecord.WARPS, resident.warps.address + first)
        self.launch.set(LaunchRecord.WARP_STRIDE, -stride if descending else stride)
        self.launch.set(LaunchRecord.BLOCK, resident.record.address)
        self.launch.set(LaunchRecord.LOCAL, resident.local.address)


@dataclass(frozen=True, slots=True)
class Incident:
    """A finding of the scheduler: rule, message and site; ``thread`` is the linear index in its block.

    ``other_site`` is that of a second instruction which the message is about, ``buffer`` the name of its memory.
    ``cause`` and ``access`` are those of the event. ``unless_racing``: a race of the same site, which names both
    accesses, stands for it.
    """

    rule: str
    message: str
    site: int
    thread: int
    block: int
    other_site: int | None = None
    buffer: str | None = None
    unless_racing: bool = False
    cause: Cause | None = None
    access: Access | None = None


@dataclass(slots=True)
class LaunchReport:
    """How a launch ended: ``completed``, ``hung`` or ``stopped``; its incidents and its backward jumps."""

    status: str = "completed"
    incidents: dict[tuple[str, int], Incident] = field(default_factory=dict)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    steps: int = 0
    explained: set[int] = field(default_factory=set)
    """Lines of the PTX whose uninitialised reads an incident describes as a whole."""
    unordered: set[int] = field(default_factory=set)
    """Sites whose races an incident describes."""

    def add(self, incident: Incident) -> None:
        """Count an incident; the first of each rule and site is kept."""
        key = incident.rule, incident.site
        self.incidents.setdefault(key, incident)
        self.counts[key] += 1
