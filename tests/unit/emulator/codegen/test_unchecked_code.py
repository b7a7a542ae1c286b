"""Code without memory checks, which only benchmarks use, computes the same as checked code."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch

from gpuemu_lsp.engine.execution import Checks

CHECKED = Checks(races=False, sync=False)
UNCHECKED = Checks(bounds=False, uninitialized=False, races=False, sync=False, contained=False)

BODIES = {
    "contiguous": "if (i < n) y[i] = 2 * x[i];",
    "uniform": "if (t == 5) y[0] = x[3]; if (t < 0) y[1] = 9; y[2 + blockIdx.x] = x[blockIdx.x];",
    "guarded": "y[i] = x[i]; if (x[i] & 1) y[i] = -x[i];",
    "bytes": "((char*)y)[i] = x[i]; if (t < 40) ((short*)(y + 64))[t] = x[t];",
    "vectors": "if (i < n / 4) ((int4*)y)[i] = ((const int4*)x)[i];",
    "gathers": "y[i] = x[x[i] & 63]; y[i ^ 1] += x[t * 2 % 64];",
    "loops": "for (int c = t; c < n; c += 64) { y[c] = x[c] + 1; if (x[c] == 3) break; }",
    "local": "int m[8]; for (int k = 0; k < 8; k++) m[(k + t) & 7] = x[k]; y[i] = m[x[t] & 7];",
    "shared": "__shared__ int s[64]; s[t] = x[i]; __syncthreads(); y[i] = s[t ^ 33] + s[blockIdx.x];",
    "scalar-PC version": "volatile int* z = y; if (t & 1) { z[i] = x[i]; __syncwarp(0xaaaaaaaa); } else z[i] = t;",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_unchecked_code_computes_the_same(body: str) -> None:
    source = f"""extern "C" __global__ void k(const int* x, int* y, int n) {{
      int t = threadIdx.x, i = blockIdx.x * 64 + t; {body} }}"""
    x = np.random.default_rng(2).integers(0, 50, 128, dtype=np.int32)
    one, other = (
        launch(source, 2, 64, x, np.zeros(128, np.int32), np.int32(100), checks=checks)
        for checks in (CHECKED, UNCHECKED)
    )
    assert one.status == other.status == "completed"
    assert not one.events
    assert np.array_equal(one.buffers["a1"], other.buffers["a1"])
    assert one.written
    assert not other.written
