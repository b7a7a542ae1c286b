"""Sectors and bank passes of a warp's requests, compared with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu_lsp.engine.emulator.launch.memory_transactions import least_sectors, passes, sectors

LANES = np.arange(32, dtype=np.int64)
ALL = np.ones((1, 32), dtype=np.bool_)


def row(addresses: np.ndarray) -> np.ndarray:
    return np.asarray(addresses, dtype=np.int64)[None, :]


@pytest.mark.parametrize(
    ("addresses", "size", "moved", "least"),
    [
        (4096 + 4 * LANES, 4, 4, 4),  # 128 bytes in a row
        (4096 + 4 * LANES[::-1], 4, 4, 4),  # the order of lanes does not matter
        (4100 + 4 * LANES, 4, 5, 4),  # off by one word: one sector more
        (4096 + 1024 * LANES, 4, 32, 4),  # a column
        (4096 + 12 * LANES, 4, 12, 4),  # one field of three: all of 384 bytes
        (4096 + 16 * LANES, 16, 16, 16),  # float4
        (4096 + 2 * LANES, 2, 2, 2),  # half
        (4096 + LANES, 1, 1, 1),
        (np.full(32, 4096), 4, 1, 1),  # all at one address
        (4096 + 4 * (LANES % 16) + 4096 * (LANES // 16), 4, 4, 4),  # two rows of 16
    ],
)
def test_sectors(addresses: np.ndarray, size: int, moved: int, least: int) -> None:
    assert sectors(row(addresses), ALL).tolist() == [moved]
    assert least_sectors(row(addresses), ALL, np.array([size])).tolist() == [least]


def test_inactive_lanes_do_not_count() -> None:
    column = np.concatenate([row(4096 + 1024 * LANES)] * 2)
    active = np.stack([LANES < 5, LANES < 0])
    assert sectors(column, active).tolist() == [5, 0]
    assert least_sectors(column, active, np.array([4, 4])).tolist() == [1, 0]
    units, least = passes(column, active, 4)
    assert (units.tolist(), least.tolist()) == ([5, 0], [1, 0])


@pytest.mark.parametrize(
    ("addresses", "size", "made", "least"),
    [
        (4 * LANES, 4, 1, 1),
        (8 * LANES, 4, 2, 1),  # every other word
        (128 * LANES, 4, 32, 1),  # a column of float[32][32]
        (132 * LANES, 4, 1, 1),  # a column of float[32][33]
        (np.full(32, 64), 4, 1, 1),  # one word for all
        (128 * (LANES // 16) + 4 * (LANES % 16), 4, 2, 1),  # two rows, the same 16 banks
        (LANES, 1, 1, 1),  # four lanes to a word
        (64 * LANES, 2, 16, 1),  # 16 words in each of two banks
        (8 * LANES, 8, 2, 2),  # double: half a warp at a time
        (16 * LANES, 16, 4, 4),  # float4: a quarter at a time
        (64 * LANES, 16, 16, 4),  # 8 lanes over 512 bytes: 4 words a bank
        (144 * LANES, 16, 4, 4),  # rows of 128 bytes padded by 16
    ],
)
def test_passes(addresses: np.ndarray, size: int, made: int, least: int) -> None:
    units, fewest = passes(row(addresses), ALL, size)
    assert (units.tolist(), fewest.tolist()) == ([made], [least])
