"""``tcgen05.mma``: products in tensor memory, of small integers whose sums are exact in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tensor_kernels import Product, multiply

_RESULTS = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "s32": np.dtype(np.int32)}


def _accumulator(cells: np.ndarray, product: Product) -> np.ndarray:
    """Return the rows of a result from the lanes of tensor memory."""
    values = cells if product.rows == 128 else cells.reshape(4, 2, 16, -1)[:, 0].reshape(64, -1)
    if product.result == "f16":
        values = values.astype(np.uint16)
    return values.view(_RESULTS[product.result]).astype(np.float64)


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
    ],
    ids=str,
)
def test_product(shape: dict[str, Any]):
    product = Product(**shape)
    outcome, cells = multiply(product)
    assert outcome.status == "completed" and not outcome.events, outcome.events
    a, b = (one.astype(np.float64) for one in product.matrices())
    assert np.array_equal(_accumulator(cells, product), a @ b.T)
