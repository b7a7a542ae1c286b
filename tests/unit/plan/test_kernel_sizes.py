"""Sizes that a kernel bounds or rounds itself, in the manners in which C++ writes that."""

import pytest

HEAD = "#include <cuda_runtime.h>\n"
HOST = """
void run(const float* x_host, float* y_host, int n) {
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemcpy(x, x_host, n * sizeof(float), cudaMemcpyHostToDevice);
    k<<<n / 256, 256>>>(x, y, n);
    cudaMemcpy(y_host, y, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
KERNEL = "__global__ void k(const float* x, float* y, int n) {{ {} }}\n"
BY_ELEMENT = {
    "guard": "int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = x[i];",
    "return": "int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return; y[i] = x[i];",
    "exchanged": "int i = blockIdx.x * 256 + threadIdx.x; if (n > i && x[0] < 2.f) y[i] = x[i];",
    "another name": "const int end = n; int i = blockIdx.x * 256 + threadIdx.x; if (i < end) y[i] = x[i];",
    "one after another": "for (int i = 0; i < n; ++i) y[i] = x[i];",
    "from its thread": "for (int i = threadIdx.x; i < n; i += 256) y[i] = x[i];",
    "by way of a variable": "int t = threadIdx.x; for (int i = 32 + t; i < n; i += 256) y[i] = x[i];",
    "assigned later": "int i; i = threadIdx.x; for (int j = i; j < n; j += 256) y[j] = x[j];",
    "step in a variable": "int step = blockDim.x; for (int i = 4; i < n; i += step) y[i] = x[i];",
    "while": "int i = threadIdx.x; while (i < n) { y[i] = x[i]; i += 256; }",
}
BY_TILE = {
    "tiles": "for (int i = 0; i < n; i += 16) y[i + threadIdx.x % 16] = x[i];",
    "several elements": "for (int i = 4 * threadIdx.x; i < n; i += 1024) y[i] = x[i];",
    "quotient": "int i = blockIdx.x * 256 + threadIdx.x; if (i < n / 4) y[4 * i] = x[4 * i];",
    "its own variable": "int end = n; end -= end % 4; int i = threadIdx.x; if (i < end) y[i] = x[i];",
    "no size": "int i = threadIdx.x; if (i < 64 && n > 4) y[i] = x[i];",
}
ROUNDED = {
    "by hand": "for (int t = 0; t < (n + 15) / 16; t++) y[16 * t] = x[16 * t];",
    "by a shift": "const int tiles = (n + 15) >> 4; for (int t = 0; t < tiles; t++) y[16 * t] = x[16 * t];",
    "with a remainder": "for (int t = 0; t < n / 16 + (n % 16 != 0); t++) y[16 * t] = x[16 * t];",
    "by the block": "for (int t = 0; t < (n + blockDim.x - 1) / blockDim.x; t++) y[16 * t] = x[16 * t];",
    "by a constant": "constexpr int kTile = 16; for (int t = 0; t < (n + kTile - 1) / kTile; t++) y[t] = x[t];",
    "by a function": "for (int t = 0; t < ceil_div(n, 16); t++) y[16 * t] = x[16 * t];",
}
NOT_ROUNDED = {
    "down": "for (int t = 0; t < n / 16; t++) y[16 * t] = x[16 * t];",
    "by another number": "for (int t = 0; t < (n + 7) / 16; t++) y[16 * t] = x[16 * t];",
}
CEIL_DIV = "__host__ __device__ int ceil_div(int a, int b) { return (a + b - 1) / b; }\n"


def _size(bare, body, head=HEAD):
    """Return the fact about the size `n`."""
    return bare(head + KERNEL.format(body) + HOST).plans[0].facts.sizes["n"]


@pytest.mark.parametrize("name", [*BY_ELEMENT])
def test_a_kernel_that_compares_each_index_is_for_any_number_of_elements(bare, name):
    assert _size(bare, BY_ELEMENT[name]).guarded


@pytest.mark.parametrize("name", [*BY_TILE])
def test_a_kernel_that_compares_the_first_index_of_tiles_is_not(bare, name):
    assert not _size(bare, BY_TILE[name]).guarded


@pytest.mark.parametrize("name", [*ROUNDED])
def test_a_kernel_that_rounds_a_quotient_up_is_for_any_remainder(bare, name):
    assert _size(bare, ROUNDED[name], HEAD + CEIL_DIV).every


@pytest.mark.parametrize("name", [*NOT_ROUNDED])
def test_a_kernel_that_rounds_down_is_not(bare, name):
    assert not _size(bare, NOT_ROUNDED[name], HEAD + CEIL_DIV).every


@pytest.mark.parametrize("head", ["EACH(i, n)", "CUDA_KERNEL_LOOP(i, n)"])
def test_a_loop_in_a_macro_is_one_of_the_kernel(bare, head):
    macro = "#define EACH(i, n) int first = threadIdx.x; for (int i = first; i < (n); i += blockDim.x * gridDim.x)\n"
    assert _size(bare, f"{head} {{ y[i] = x[i]; }}", HEAD + macro).guarded
