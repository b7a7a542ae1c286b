"""str.format with names, positions and a format, and the operator %."""

import cupy as cp

TYPE = "double"
CODE = """
extern "C" __global__ void halve(const {type}* x, {type}* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + {0:d})
        y[i] = x[i] * %s;  // expect: memory/out-of-bounds
}}
"""
halve = cp.RawKernel(CODE.format(1, type=TYPE) % 0.5, "halve")
