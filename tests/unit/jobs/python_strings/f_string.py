"""An f-string with constants, one of them a piece of code of several lines."""

import cupy as cp

BLOCK = 128
STEP = f"{BLOCK // 64}.0"
BODY = """
    if (i <= n) {
        y[i] = FACTOR * x[i];  // expect: memory/out-of-bounds
    }
"""
shift = cp.RawKernel(f"""
#define FACTOR {STEP}f
extern "C" __global__ void __launch_bounds__({BLOCK}) shift(const float* x, float* y, int n) {{
    int i = blockIdx.x * {BLOCK} + threadIdx.x;
    {BODY.strip()}
}}
""", "shift")
