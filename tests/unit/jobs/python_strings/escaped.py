"""A literal on one line, with escape sequences and a continued line."""

import cupy as cp

fill = cp.RawKernel("extern \"C\" __global__ void fill(float* y, int n) {\n\tint i = blockIdx.x * blockDim.x + threadIdx.x;\n\tif (i <= n)\n\t\t\
\x79[i] = 1.0f;  // expect: memory/out-of-bounds\n}\n", 'fill')
