"""Code that is assembled in steps, in a method."""

import cupy as cp


class Kernels:
    def __init__(self):
        source = 'extern "C" __global__ void ramp(float* y, int n) {\n'
        source += "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        source += "\n".join(["    if (i <= n) {", "        y[i] = 2.0f * i;  // expect: memory/out-of-bounds", "    }", "}"])
        self.ramp = cp.RawKernel(source, "ramp")
