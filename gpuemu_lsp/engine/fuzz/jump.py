"""Draw a long stretch of the generator's stream in parallel lanes.

The state (128 bits) steps by a linear map over GF(2), so the state after 2**k steps is a fixed 128x128 bit matrix times
the state now. Lane ``j`` starts ``j * steps`` ahead and all lanes step together as NumPy vectors; the result is the
sequential stream, bit for bit, many times as fast.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.uint64]

WORTH_IT = 512
"""Below this many numbers a plain loop is as fast."""

_BITS = 128
_BYTES = 16
_23, _17, _26 = np.uint64(23), np.uint64(17), np.uint64(26)


def draw(s0: int, s1: int, count: int) -> tuple[Words, int, int]:
    """Return the next ``count`` outputs from the state (s0, s1), and the state after them."""
    doublings = min(12, max(0, (count // 64).bit_length() - 1))
    lanes = 1 << doublings
    log_steps = max(0, (-(-count // lanes) - 1).bit_length())
    x = np.array([s0], dtype=np.uint64)
    y = np.array([s1], dtype=np.uint64)
    for doubling in range(doublings):
        ahead = _apply(_tables(log_steps + doubling), x, y)
        x, y = np.concatenate((x, ahead[0])), np.concatenate((y, ahead[1]))
    steps = -(-count // lanes) if lanes == 1 else 1 << log_steps
    out = np.empty((steps, lanes), dtype=np.uint64)
    for step in range(steps):
        x, y = _step(x, y)
        np.add(x ^ y, x, out=out[step])
    end0, end1 = _advance(s0, s1, count)
    return np.ascontiguousarray(out.T).reshape(-1)[:count], end0, end1


def _step(x: Words, y: Words) -> tuple[Words, Words]:
    """One step of the state; the output is (new x ^ new y) + new x, because the new y is ``mixed ^ y``."""
    mixed = x ^ (x << _23)
    mixed ^= mixed >> _17
    mixed ^= y ^ (y >> _26)
    return y, mixed ^ y


def _advance(s0: int, s1: int, count: int) -> tuple[int, int]:
    x, y = np.array([s0], dtype=np.uint64), np.array([s1], dtype=np.uint64)
    for bit in range(count.bit_length()):
        if count >> bit & 1:
            x, y = _apply(_tables(bit), x, y)
    return int(x[0]), int(y[0])


def _apply(tables: Words, x: Words, y: Words) -> tuple[Words, Words]:
    """Multiply states by a matrix given as ``tables[byte position, byte value, word]``."""
    out0, out1 = np.zeros_like(x), np.zeros_like(y)
    for position in range(_BYTES):
        word = x if position < 8 else y
        index = ((word >> np.uint64(8 * (position % 8))) & np.uint64(0xFF)).astype(np.intp)
        out0 ^= tables[position, index, 0]
        out1 ^= tables[position, index, 1]
    return out0, out1


@lru_cache(maxsize=64)
def _tables(log_steps: int) -> Words:
    """Return the lookup tables (16, 256, 2) of the map ``2**log_steps`` steps ahead."""
    x, y = _basis()
    images = _step(x, y) if log_steps == 0 else _squared(log_steps - 1, x, y)
    columns = np.stack(images, axis=-1).reshape(_BYTES, 8, 2)
    tables = np.zeros((_BYTES, 256, 2), dtype=np.uint64)
    for bit in range(8):
        half = 1 << bit
        tables[:, half : 2 * half] = tables[:, :half] ^ columns[:, bit : bit + 1]
    return tables


def _squared(log_steps: int, x: Words, y: Words) -> tuple[Words, Words]:
    once = _tables(log_steps)
    return _apply(once, *_apply(once, x, y))


def _basis() -> tuple[Words, Words]:
    """Return the 128 unit vectors as two words each, bit 0 of the first word first."""
    bits = np.arange(64, dtype=np.uint64)
    units, zeros = np.left_shift(np.uint64(1), bits), np.zeros(64, dtype=np.uint64)
    return np.concatenate((units, zeros)), np.concatenate((zeros, units))
