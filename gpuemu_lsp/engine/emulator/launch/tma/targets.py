"""The operands of a copy: who issues it, and the blocks of a cluster whose shared memory it reads or writes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import ROWS
from gpuemu_lsp.engine.emulator.devicelib.cluster import OFFSET_BITS
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch
from gpuemu_lsp.engine.emulator.launch.tma.races import Order


@dataclass(frozen=True, slots=True)
class CopyIssuer:
    """The thread that issues a copy, and the block whose shared memory the copy is about.

    ``block`` and ``window`` are the number of this block and the start of its memory, ``home`` is the number of the
    thread's own block. ``site`` is that of the instruction, ``thread`` the thread's index in its block. ``order`` is
    what comes before the copy, None where races are not looked for.
    """

    block: int
    window: int
    site: int
    thread: int
    home: int
    order: Order | None = None

    @property
    def remote(self) -> bool:
        """Whether the memory is another block's."""
        return self.block != self.home


_Row = ctypes.c_uint64 * WARP_SIZE


def row_values(context: int, row: int, lanes: Sequence[int]) -> list[int]:
    """Return a row of the operands of an instruction, which are in the scratch space of a warp's context."""
    cells = _Row.from_address(context + ROWS[row])
    return cells[:] if len(lanes) == WARP_SIZE else [cells[lane] for lane in lanes]


def uniform_value(context: int, row: int) -> int | None:
    """Return the value of a row of the operands that all lanes have, None if they differ."""
    cells = ctypes.string_at(context + ROWS[row], 8 * WARP_SIZE)
    return int.from_bytes(cells[:8], "little") if cells == cells[:8] * WARP_SIZE else None


def offset_of(address: int) -> int:
    """Return the offset in shared memory of an address of ``.shared::cluster``."""
    return address & ((1 << OFFSET_BITS) - 1)


def target_of(prepared: PreparedLaunch, issuer: CopyIssuer, address: int) -> CopyIssuer | None:
    """Return the issuer with the block that an address of ``.shared::cluster`` names, None if there is none."""
    field = address >> OFFSET_BITS
    return issuer if not field else _member(prepared, issuer, field - 1)


def multicast_targets(prepared: PreparedLaunch, issuer: CopyIssuer, mask: int) -> tuple[list[CopyIssuer], list[int]]:
    """Return the targets of a mask of ranks, and the ranks that no block of the cluster has."""
    ranks = [rank for rank in range(16) if mask >> rank & 1]
    found = {rank: _member(prepared, issuer, rank) for rank in ranks}
    return [one for one in found.values() if one is not None], [rank for rank, one in found.items() if one is None]


def _member(prepared: PreparedLaunch, issuer: CopyIssuer, rank: int) -> CopyIssuer | None:
    if prepared.cluster_blocks == 1:
        return issuer if rank == 0 else None
    if rank >= len(prepared.residents):
        return None
    resident = prepared.residents[rank]
    return replace(issuer, block=resident.number, window=resident.shared.address)
