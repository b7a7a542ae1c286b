"""Jump-ahead: a long part of the generator's stream, drawn in parallel lanes.

One step of the state (128 bits) is a linear map over GF(2), so the state after 2**k steps is a constant 128x128 bit
matrix times the current state. Lane ``j`` starts ``j * steps`` ahead, and all lanes step together as NumPy vectors. The
result is the sequential stream, bit for bit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.uint64]

MIN_COUNT = 512
"""Fewer numbers are drawn as fast one by one."""

_BYTES = 16
_LOG_STEPS = 4
_MAX_DOUBLINGS = 12
"""Doubling the lanes costs about as much as a few steps of all lanes; more doublings than this cost more."""
_FIRST_OF_BYTE = np.arange(0, 256 * _BYTES, 256, dtype=np.intp).reshape(_BYTES, 1)
_23, _17, _26 = np.uint64(23), np.uint64(17), np.uint64(26)


def draw(s0: int, s1: int, count: int) -> tuple[Words, int, int]:
    """Return the next ``count`` outputs from the state (s0, s1), and the state after them."""
    doublings = min(_MAX_DOUBLINGS, max(0, (-(-count >> _LOG_STEPS) - 1).bit_length()))
    lanes = 1 << doublings
    log_steps = max(0, (-(-count // lanes) - 1).bit_length())
    x = np.array([s0], dtype=np.uint64)
    y = np.array([s1], dtype=np.uint64)
    for doubling in range(doublings):
        ahead = _apply(_tables(log_steps + doubling), x, y)
        x, y = np.concatenate((x, ahead[0])), np.concatenate((y, ahead[1]))
    steps = 1 << log_steps
    lane, within = divmod(count, steps)  # the end of the stream, unless all steps of all lanes are used
    ends = []
    out = np.empty((steps, lanes), dtype=np.uint64)
    for step in range(steps):
        if step == within and lane < lanes:
            ends = [x[lane], y[lane]]
        x, y = _step(x, y)
        np.add(x ^ y, x, out=out[step])
    end0, end1 = ends or (x[-1], y[-1])
    return np.ascontiguousarray(out.T).reshape(-1)[:count], int(end0), int(end1)


def _step(x: Words, y: Words) -> tuple[Words, Words]:
    """Return the next state. The output is ``(x ^ y) + x`` of it, because the new y is ``mixed ^ y``."""
    mixed = x ^ (x << _23)
    mixed ^= mixed >> _17
    mixed ^= y ^ (y >> _26)
    return y, mixed ^ y


def _apply(tables: Words, x: Words, y: Words) -> tuple[Words, Words]:
    """Multiply states by a bit matrix, given as ``tables[word, 256 * byte position + byte value]``."""
    states = np.stack((x, y)).astype("<u8", copy=False).view(np.uint8)
    index = states.reshape(2, -1, 8).transpose(0, 2, 1).reshape(_BYTES, -1) + _FIRST_OF_BYTE
    return np.bitwise_xor.reduce(tables[0].take(index)), np.bitwise_xor.reduce(tables[1].take(index))


@lru_cache(maxsize=64)
def _tables(log_steps: int) -> Words:
    """Return the lookup tables, of shape (2, 16 * 256), of the map that jumps ``2**log_steps`` steps ahead."""
    x, y = _basis()
    images = _step(x, y) if log_steps == 0 else _squared(log_steps - 1, x, y)
    columns = np.stack(images).reshape(2, _BYTES, 8)
    tables = np.zeros((2, _BYTES, 256), dtype=np.uint64)
    for bit in range(8):
        half = 1 << bit
        tables[..., half : 2 * half] = tables[..., :half] ^ columns[..., bit : bit + 1]
    return tables.reshape(2, -1)


def _squared(log_steps: int, x: Words, y: Words) -> tuple[Words, Words]:
    once = _tables(log_steps)
    return _apply(once, *_apply(once, x, y))


def _basis() -> tuple[Words, Words]:
    """Return the 128 unit vectors as two words each, bit 0 of the first word first."""
    bits = np.arange(64, dtype=np.uint64)
    units, zeros = np.left_shift(np.uint64(1), bits), np.zeros(64, dtype=np.uint64)
    return np.concatenate((units, zeros)), np.concatenate((zeros, units))
