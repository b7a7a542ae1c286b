"""Random number generator and derivation of seeds, compatible bit for bit with the original ``gpuemu``.

All arithmetic is modulo 2**64. The generator is a variant of xorshift128+ (shifts 23, 17, 26; the ``y`` term enters
twice; Vigna, "Further scramblings of Marsaglia's xorshift generators"). Its step is linear over GF(2), so large arrays
are drawn in parallel by jumping ahead (:mod:`gpuemu_lsp.engine.fuzz.jump_ahead`), with the same stream.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import MutableSequence, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz import jump_ahead

_MASK = (1 << 64) - 1
_T = TypeVar("_T")


def mix(value: int) -> int:
    """Scramble 64 bits: one splitmix64 step."""
    z = (value + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def derive_seed(seed: int, text: str) -> int:
    """Return the seed derived for a label: BLAKE2b-64 of the seed's 8 bytes and the UTF-8 text."""
    digest = hashlib.blake2b((seed & _MASK).to_bytes(8, "little") + text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class Rng:
    """A stream of random numbers. ``derive`` depends on the seed alone, not on how many numbers were drawn."""

    __slots__ = ("_s0", "_s1", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed & _MASK
        self._s0 = mix(self.seed)
        self._s1 = mix((self.seed + 1) & _MASK)
        if self._s0 == 0 and self._s1 == 0:
            self._s0 = 1

    def derive(self, text: str) -> Rng:
        """Return an independent generator for a label."""
        return Rng(derive_seed(self.seed, text))

    def u64(self) -> int:
        """Draw 64 bits."""
        x, y = self._s0, self._s1
        x ^= (x << 23) & _MASK
        x ^= x >> 17
        x ^= y ^ (y >> 26)
        self._s0, self._s1 = y, x ^ y
        return (x + y) & _MASK

    def f64(self) -> float:
        """Draw from [0, 1) with 53 bits."""
        return (self.u64() >> 11) / 9007199254740992.0

    def f32(self) -> float:
        """Draw from [0, 1) with 24 bits."""
        return (self.u64() >> 40) / 16777216.0

    def range(self, low: int, high: int) -> int:
        """Draw an integer from [low, high). The modulo bias is part of the compatible stream."""
        return low + self.u64() % (high - low)

    def choice(self, items: Sequence[_T]) -> _T:
        """Pick one item of a non-empty sequence."""
        return items[self.u64() % len(items)]

    def bool(self, probability: float) -> bool:
        """Draw True with the given probability."""
        return self.f64() < probability

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle in place (Fisher-Yates from the end)."""
        for i in range(len(items) - 1, 0, -1):
            j = self.u64() % (i + 1)
            items[i], items[j] = items[j], items[i]

    def normal(self) -> tuple[float, float]:
        """Draw two standard normal numbers (Box-Muller)."""
        radius = math.sqrt(-2.0 * math.log(max(self.f64(), 1e-300)))
        angle = 2.0 * math.pi * self.f64()
        return radius * math.cos(angle), radius * math.sin(angle)

    def u64_array(self, count: int) -> npt.NDArray[np.uint64]:
        """Draw ``count`` times 64 bits: the same numbers as ``count`` calls of :meth:`u64`."""
        if count < jump_ahead.MIN_COUNT:
            return np.array([self.u64() for _ in range(count)], dtype=np.uint64)
        values, self._s0, self._s1 = jump_ahead.draw(self._s0, self._s1, count)
        return values

    def f64_array(self, count: int) -> npt.NDArray[np.float64]:
        """Draw ``count`` numbers from [0, 1): the same as ``count`` calls of :meth:`f64`."""
        return (self.u64_array(count) >> np.uint64(11)).astype(np.float64) / 9007199254740992.0
