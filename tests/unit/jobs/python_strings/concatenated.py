"""A literal for each line, joined implicitly and by +."""

import cupy as cp

HEADER = '#define LIMIT(i, n) ((i) <= (n))\n'
square = cp.RawKernel(
    HEADER + 'extern "C" __global__ '
    'void square(const float* x, float* y, int n) {\n'
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (LIMIT(i, n)) {\n" +
    "        y[i] = x[i] * x[i];  // expect: memory/out-of-bounds\n"
    "    }\n}\n",
    name="square",
)
