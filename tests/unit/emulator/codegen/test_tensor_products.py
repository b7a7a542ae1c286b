"""``tcgen05.mma``: products in tensor memory, of small integers whose sums are exact in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tensor_kernels import Product, multiply

_RESULTS = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "s32": np.dtype(np.int32)}


def _lanes(registers: np.ndarray, shape: str) -> np.ndarray:
    """Return the cells of lanes from the registers of 128 threads, as the figures of 9.7.16.2.3.1 show them."""
    if shape == "32x32b":
        return registers
    count = registers.shape[1]
    width = 2 * count
    cells = np.zeros((64, width), registers.dtype)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for register in range(count):
            if shape == "16x32bx2":
                row, column = lane % 16, register + count * (lane // 16)
            elif shape == "16x64b":
                row, column = lane // 4 + 8 * (lane % 2), 2 * register + lane % 4 // 2
            elif shape == "16x128b":
                row, column = lane // 4 + 8 * (register % 2), register // 2 * 4 + lane % 4
            else:
                row, column = lane // 4 + register % 4 // 2 * 8, register // 4 * 8 + lane % 4 * 2 + register % 2
            cells[16 * warp + row, column] = registers[thread, register]
    return cells


def _accumulator(registers: np.ndarray, product: Product) -> np.ndarray:
    """Return the rows of a result from what the kernel has loaded."""
    values = _lanes(registers, product.load)
    if product.ws:
        values = np.concatenate(np.split(values, 128 // product.rows), axis=1)
    if product.result == "f16":
        values = values.astype(np.uint16)
    return values.view(_RESULTS[product.result]).astype(np.float64)


_HALF = {"rows": 64, "columns": 32}


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"steps": 4, "columns": 64},
        {"swizzle": 2, "steps": 2},
        {"swizzle": 1},
        {"swizzle": 0, "steps": 2},
        {"formats": ("bf16", "bf16"), "mn_major": (True, True)},
        {"mn_major": (False, True), "swizzle": 2, "steps": 2},
        {"mn_major": (True, False), "swizzle": 0, "steps": 1},
        {"result": "f16", "formats": ("f16", "f16")},
        {"kind": "tf32", "formats": ("tf32", "tf32"), "steps": 2},
        {"kind": "f8f6f4", "formats": ("e4m3", "e5m2"), "steps": 2},
        {"kind": "f8f6f4", "formats": ("e5m2", "e4m3"), "mn_major": (True, True), "columns": 128},
        {"kind": "f8f6f4", "formats": ("e2m3", "e3m2")},
        {"kind": "f8f6f4", "formats": ("e2m1", "e4m3"), "result": "f16"},
        {"kind": "i8", "formats": ("u8", "s8"), "result": "s32", "steps": 2},
        {**_HALF, "load": "16x64b", "steps": 2},
        {**_HALF, "load": "16x128b"},
        {**_HALF, "load": "16x256b"},
        {**_HALF, "load": "16x32bx2"},
        {"rows": 64, "columns": 64, "ws": True},
        {"rows": 32, "columns": 64, "ws": True},
        {"in_tensor_memory": True, "steps": 2},
        {"in_tensor_memory": True, "kind": "f8f6f4", "formats": ("e4m3", "e4m3")},
        {"kind": "mxf8f6f4", "formats": ("e4m3", "e2m1"), "scaled": "scale_vec::1X", "scale_ids": (1, 2)},
        {"kind": "mxf8f6f4", "formats": ("e5m2", "e3m2"), "scaled": "scale_vec::1X", "columns": 128},
        {"kind": "mxf4", "formats": ("e2m1", "e2m1"), "scaled": "scale_vec::2X", "scale_ids": (2, 0), "columns": 64},
        {"kind": "mxf4nvf4", "formats": ("e2m1", "e2m1"), "scaled": "scale_vec::4X"},
    ],
    ids=str,
)
def test_product(shape: dict[str, Any]):
    product = Product(**shape)
    outcome, registers = multiply(product)
    assert outcome.status == "completed" and not outcome.events, outcome.events
    a, b = (one.astype(np.float64) for one in product.matrices())
    if product.scaled:
        a, b = (one * product.scale(len(one), number) for one, number in zip((a, b), product.scale_ids, strict=True))
    assert np.array_equal(_accumulator(registers, product), a @ b.T)
