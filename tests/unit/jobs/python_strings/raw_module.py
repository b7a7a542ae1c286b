"""RawModule with instances of a template and a compiler option."""

import cupy

CODE = """
template <typename T>
__global__ void add(const T* x, const T* y, T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + EXTRA)
        out[i] = x[i] + y[i];  // expect: memory/out-of-bounds
}
"""
module = cupy.RawModule(code=CODE, options=("-std=c++17", "-DEXTRA=1"), name_expressions=["add<float>"])
add = module.get_function("add<float>")
