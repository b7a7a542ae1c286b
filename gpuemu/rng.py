"""The random numbers of the fuzzer, under the names of the original ``gpuemu``, with the same stream."""

from __future__ import annotations

import secrets
from collections.abc import MutableSequence, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed

_T = TypeVar("_T")


def generate_seed() -> int:
    """Return a random seed of 64 bits."""
    return secrets.randbits(64)


class SeededRng:
    """A stream of random numbers; equal seeds give equal streams on every machine."""

    def __init__(self, seed: int) -> None:
        self._rng = Rng(seed)

    @property
    def seed(self) -> int:
        """The seed."""
        return self._rng.seed

    def derive(self, domain: str) -> SeededRng:
        """Return an independent generator for a label."""
        return SeededRng(derive_seed(self._rng.seed, domain))

    def choice(self, items: Sequence[_T]) -> _T:
        """Pick one item of a non-empty sequence."""
        return self._rng.choice(items)

    def choice_index(self, count: int) -> int:
        """Pick an index below ``count``."""
        return self._rng.range(0, count)

    def gen_range(self, low: int, high: int) -> int:
        """Draw an integer from [low, high)."""
        return self._rng.range(low, high)

    def gen_u64(self) -> int:
        """Draw 64 bits."""
        return self._rng.u64()

    def gen_f32(self) -> float:
        """Draw from [0, 1) with 24 bits."""
        return self._rng.f32()

    def gen_f64(self) -> float:
        """Draw from [0, 1) with 53 bits."""
        return self._rng.f64()

    def gen_bool(self, p: float = 0.5) -> bool:
        """Draw True with probability ``p``."""
        return self._rng.bool(p)

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle in place."""
        self._rng.shuffle(items)

    def randn_f64(self, *shape: int) -> npt.NDArray[np.float64]:
        """Draw standard normal numbers in fp64."""
        count = int(np.prod(shape))
        values = [value for _ in range((count + 1) // 2) for value in self._rng.normal()]
        return np.array(values[:count]).reshape(shape)

    def randn(self, *shape: int) -> npt.NDArray[np.float32]:
        """Draw standard normal numbers in fp32."""
        return self.randn_f64(*shape).astype(np.float32)


__all__ = ["SeededRng", "derive_seed", "generate_seed"]
