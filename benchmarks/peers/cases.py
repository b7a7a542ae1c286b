"""Kernels of the emulator benchmark: sizes, launches, arguments and expected results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """One kernel with its launch.

    ``arguments`` are arrays and NumPy scalars in the order of the parameters; ``output`` is the index of the output
    array.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Arrays
    output: int
    expected: Callable[[Arrays], Any]

    def fresh(self) -> list[Any]:
        """Return copies of the arguments."""
        return [one.copy() for one in self.arguments]

    def verify(self, result: Any, peer: str) -> None:
        """Raise an AssertionError if a result differs from the expected one."""
        expected = self.expected(self.arguments)
        if not np.allclose(result.reshape(expected.shape), expected, rtol=2e-3, atol=2e-4):
            raise AssertionError(f"{peer}: wrong result of {self.name}")


def cases() -> list[BenchmarkCase]:
    """Return the kernels, with about a million elements or 2 * 256^3 operations each."""
    rng = np.random.default_rng(1)
    million, side = 1 << 20, 256

    def floats(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    n, size = np.int32(million), np.int32(side)
    vector, rows = floats(million), floats(1024, 1024)
    a, b = floats(side, side), floats(side, side)
    heads = [floats(4, side, 64) for _ in range(3)]
    bytes_ = rng.integers(0, 256, million, dtype=np.int32)
    wide, line = (4096, 1, 1), (256, 1, 1)
    empty = np.zeros_like
    product = (a, b, empty(a), size)
    one = np.float32(1.5)
    return [
        BenchmarkCase("saxpy", wide, line, (one, vector, floats(million), n), 2, lambda v: v[0] * v[1] + v[2]),
        BenchmarkCase("gelu", wide, line, (vector, empty(vector), n), 1, lambda v: _gelu(v[0])),
        BenchmarkCase("softmax", (1024, 1, 1), line, (rows, empty(rows), np.int32(1024)), 1, lambda v: _softmax(v[0])),
        BenchmarkCase(
            "layernorm",
            (1024, 1, 1),
            line,
            (rows, floats(1024), floats(1024), empty(rows), np.int32(1024)),
            3,
            lambda v: _normal(v[0]) * v[1] + v[2],
        ),
        BenchmarkCase(
            "reduction", (64, 1, 1), line, (vector + 1, np.zeros(1, np.float32), n), 1, lambda v: _total(v[0])
        ),
        BenchmarkCase("transpose", (32, 32, 1), (32, 8, 1), (rows, empty(rows), np.int32(1024)), 1, lambda v: v[0].T),
        BenchmarkCase("matmul_tiled", (16, 16, 1), (16, 16, 1), product, 2, lambda v: v[0] @ v[1]),
        BenchmarkCase("matmul_register", (4, 4, 1), line, product, 2, lambda v: v[0] @ v[1]),
        BenchmarkCase(
            "flash_attention", (4, 4, 1), (64, 1, 1), (*heads, empty(heads[0]), size), 3, lambda v: _attention(*v[:3])
        ),
        BenchmarkCase(
            "histogram",
            (64, 1, 1),
            line,
            (bytes_, np.zeros(256, np.int32), n),
            1,
            lambda v: np.bincount(v[0], minlength=256),
        ),
    ]


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def _softmax(x: Any) -> Any:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _normal(x: Any) -> Any:
    wide = x.astype(np.float64)
    return (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)


def _total(x: Any) -> Any:
    return x.astype(np.float64).sum().reshape(1)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return _softmax(q @ k.transpose(0, 2, 1) * 0.125) @ v
