"""The blocks of a cluster: their numbers in the grid, their records, and who owns an address in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.emulator.abi.memory import UNMAPPED, Shadow
from gpuemu_lsp.engine.emulator.abi.structs import CLUSTER_WINDOWS, BlockRecord
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.execution import Dim3


def clusters_of(prepared: PreparedLaunch) -> Iterator[tuple[Dim3, tuple[int, ...]]]:
    """Yield the index of each cluster, and the linear numbers of its blocks by rank, in the order of the launch."""
    grid, dims = prepared.request.grid, prepared.cluster
    counts = tuple(whole // part for whole, part in zip(grid, dims, strict=True))
    every = [(x, y, z) for z in range(counts[2]) for y in range(counts[1]) for x in range(counts[0])]
    for place in reversed(every) if prepared.request.descending else every:
        numbers: list[int] = []
        # The rank counts x fastest (section 10.17).
        for z in range(dims[2]):
            for y in range(dims[1]):
                first = ((place[2] * dims[2] + z) * grid[1] + place[1] * dims[1] + y) * grid[0] + place[0] * dims[0]
                numbers += range(first, first + dims[0])
        yield place, tuple(numbers)


def place_windows(prepared: PreparedLaunch) -> None:
    """Write the windows of all resident blocks into the records of each; other ranks get unmapped memory."""
    unmapped = prepared.arena.address + UNMAPPED
    windows = [one.shared.address for one in prepared.residents]
    for resident in prepared.residents:
        table = [resident.shared.address, *windows]
        table += [unmapped] * (CLUSTER_WINDOWS - len(table))
        for index, address in enumerate(table):
            resident.record.set(BlockRecord.WINDOWS.element(index), address)


def place_block(prepared: PreparedLaunch, resident: ResidentBlock, rank: int, cluster: Dim3, number: int) -> None:
    """Give a resident block its number, and its place in its cluster; it has no shared memory until it starts."""
    resident.number, resident.yields, resident.started, resident.ended = number, 0, False, False
    resident.arrivals.clear()
    x, y, _ = prepared.cluster
    record = resident.record
    fields = (BlockRecord.CLUSTER_X, BlockRecord.CLUSTER_Y, BlockRecord.CLUSTER_Z)
    inside = (BlockRecord.CLUSTER_CTAID_X, BlockRecord.CLUSTER_CTAID_Y, BlockRecord.CLUSTER_CTAID_Z)
    for field, value in zip((*fields, *inside), (*cluster, rank % x, rank // x % y, rank // (x * y)), strict=True):
        record.set(field, value)
    record.set(BlockRecord.CLUSTER_RANK, rank)
    withdraw(prepared, resident, Shadow.AHEAD)


def withdraw(prepared: PreparedLaunch, resident: ResidentBlock, why: int) -> None:
    """Make the shared memory of a block unaddressable; ``why`` is a bit of its shadow bytes."""
    prepared.arena.shadow(resident.shared.address, resident.shared.size)[:] = why
