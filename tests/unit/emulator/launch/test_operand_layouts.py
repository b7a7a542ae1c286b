"""Operands of ``wgmma`` in shared memory: addresses against CuTe's layouts, as pycute computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuemu_lsp.engine.emulator.launch.async_order.operands import decoded, operand_chunks

pycute = pytest.importorskip("pycute.swizzle", reason="pycute (of the wheel nvidia-cutlass) is not installed")

_CODES = {0: 0, 1: 3, 2: 2, 3: 1}


def _canonical(count: int, bits: int, swizzle: int, mn_major: bool, leading: int, stride: int) -> Any:
    """Return the layout of 9.7.15.5.1.2.1.3 in elements: a function of (row, k). Distances are in elements."""
    unit, width = 128 // bits, 1 << swizzle
    deep = 256 // bits
    if mn_major:
        across, along = (leading, stride) if swizzle else (stride, leading)
        shape = ((unit, width, count // (unit * width)), (8, deep // 8))
        return pycute.Layout(shape, ((1, unit, across), (width * unit, along)))
    along = unit if swizzle else leading
    return pycute.Layout(((8, count // 8), (unit, 2)), ((width * unit, stride), (1, along)))


@pytest.mark.parametrize("swizzle", [0, 1, 2, 3])
@pytest.mark.parametrize(("bits", "mn_major"), [(8, False), (16, False), (32, False), (16, True)])
@pytest.mark.parametrize("count", [8, 24, 64, 96, 128, 256])
def test_addresses_are_those_of_the_canonical_layout(count: int, bits: int, mn_major: bool, swizzle: int) -> None:
    if mn_major and count % (128 // bits << swizzle):
        pytest.skip("rows next to each other in memory come in whole patterns")
    random = np.random.default_rng(count + bits + swizzle)
    for _ in range(8):
        start, leading, stride = (int(one) * 16 for one in random.integers(1, 1 << 9, 3))
        # A pattern begins where its rows do: at a multiple of its size, without a base offset.
        start = start // 1024 * 1024
        descriptor = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | _CODES[swizzle] << 62
        fields = decoded(descriptor)
        assert (fields.start, fields.leading, fields.stride, fields.swizzle) == (start, leading, stride, swizzle)
        layout = _canonical(count, bits, swizzle, mn_major, leading * 8 // bits, stride * 8 // bits)
        pattern = pycute.Swizzle(swizzle, 4, 3)
        chunks = operand_chunks(decoded(descriptor), count, bits, mn_major)
        for address, row, k in zip(chunks.addresses, chunks.rows, chunks.ks, strict=True):
            linear = start + layout(int(row), int(k)) * bits // 8
            assert address == (pattern(linear) if swizzle else linear), (row, k)
        # Sixteen bytes hold neighbours along k or along the rows, and every element is in one chunk.
        assert len(chunks.addresses) * 128 // bits == count * 256 // bits
