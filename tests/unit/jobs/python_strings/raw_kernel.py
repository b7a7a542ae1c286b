"""RawKernel with a raw literal, after text that is wider in UTF-8 and UTF-16 than on the screen."""

import cupy as cp

scale = cp.RawKernel(r'''
/* größer 🙂 */ extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    /* größer 🙂 */ if (i <= n) { y[i] = 2.0f * x[i]; }  // expect: memory/out-of-bounds
}
''', "scale")
