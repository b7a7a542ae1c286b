"""Writes that a recording lacks, by what the block reads: those of other blocks, bulk copies and ``mbarrier`` units.

A recording has the stores of one block. A load that finds another value than the last one that the block read or wrote
there shows that something else has written meanwhile. When it did is not known: the write is put just before that load.
What the block does not read is not seen, nor is an element that the block writes in parts of other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.debug.access_table import ACCESS, Kind, Table
from gpuemu_lsp.engine.emulator.launch.recorder import MemoryPicture

_SIZES: Final = (1, 2, 4, 8)
"""Bytes of elements."""


def external_writes(table: Table, pictures: Sequence[MemoryPicture]) -> Table:
    """Return the external writes that the loads of a table show.

    Parameters
    ----------
    table : Table
        The accesses of the block, in order of time.
    pictures : sequence of MemoryPicture
        Memory at the block's start.
    """
    executed = table[~table["refused"]]
    order = np.lexsort((executed["size"], executed["address"]))  # stable: by time where both are equal
    rows = executed[order]
    if not len(rows):
        return np.zeros(0, dtype=ACCESS)
    again = np.zeros(len(rows), dtype=np.bool_)
    again[1:] = (rows["address"][1:] == rows["address"][:-1]) & (rows["size"][1:] == rows["size"][:-1])
    # A register may be wider than what is loaded to it or stored from it.
    values = rows["value"] & (np.uint64(2**64 - 1) >> (np.uint64(64) - np.uint64(8) * rows["size"]))
    expected = np.zeros(len(rows), dtype=np.uint64)
    expected[1:] = values[:-1]
    is_load = rows["kind"] == Kind.LOAD
    comparable = again.copy()
    for picture in pictures:
        _at_start(rows, np.flatnonzero(is_load & ~again), picture, expected, comparable)
    shown = is_load & comparable & (values != expected)
    shown[shown] = ~_written_in_parts(rows, rows[shown])
    external: Table = rows[shown].copy()
    external["cause"] = external["tick"]
    external["tick"] -= 1
    external["kind"] = Kind.EXTERNAL
    return external


def _at_start(
    rows: Table,
    places: npt.NDArray[np.intp],
    picture: MemoryPicture,
    expected: npt.NDArray[np.uint64],
    comparable: npt.NDArray[np.bool_],
) -> None:
    """Fill in what a region held at the block's start, for rows at some places of the table."""
    offsets = (rows["address"][places] - np.uint64(picture.address)).astype(np.int64)
    sizes = rows["size"][places].astype(np.int64)
    there = (offsets >= 0) & (offsets + sizes <= len(picture.data))
    for size in _SIZES:
        chosen = there & (sizes == size)
        data = picture.data[offsets[chosen][:, None] + np.arange(size)]
        expected[places[chosen]] = np.ascontiguousarray(data).view(f"<u{size}")[:, 0]
        comparable[places[chosen]] = True


def _written_in_parts(rows: Table, loads: Table) -> npt.NDArray[np.bool_]:
    """Return for each load whether its element overlaps with a write of another size or place."""
    writes = rows[rows["kind"] != Kind.LOAD]
    first, last = loads["address"].astype(np.int64), (loads["address"] + loads["size"]).astype(np.int64)
    overlapping = np.zeros(len(loads), dtype=np.int64)
    for size in _SIZES:
        starts = np.unique(writes["address"][writes["size"] == size]).astype(np.int64)
        overlapping += np.searchsorted(starts, last) - np.searchsorted(starts, first - size, side="right")
        same = loads["size"] == size
        overlapping[same] -= np.isin(first[same], starts)
    return overlapping > 0
