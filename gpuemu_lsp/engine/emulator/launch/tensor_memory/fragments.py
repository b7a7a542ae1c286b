"""The cells that ``tcgen05.ld`` and ``st`` give to each register of a warp (PTX ISA section 9.7.16.2.3.1)."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE

Indices: TypeAlias = npt.NDArray[np.int64]


@lru_cache(maxsize=64)
def fragment_cells(shape: str, count: int) -> tuple[Indices, Indices]:
    """Return the lane and the column of each cell, from the first of the access on, with shape (registers, threads)."""
    registers, threads = np.indices((count, WARP_SIZE))
    assert shape == "32x32b"
    return threads, registers


def fragment_lanes(shape: str) -> int:
    """Return the number of lanes that an access has."""
    return int(shape.partition("x")[0])


def fragment_columns(shape: str, count: int) -> int:
    """Return the number of columns that an access has."""
    return int(fragment_cells(shape, count)[1].max()) + 1
