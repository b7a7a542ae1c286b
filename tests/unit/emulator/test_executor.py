"""Complete kernels, with sizes that are not multiples of the block and many block shapes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, result

I = np.int32  # noqa: E741
RNG = np.random.default_rng(7)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000])
@pytest.mark.parametrize("block", [32, 100, 256])
def test_guarded_elementwise(n: int, block: int) -> None:
    source = """extern "C" __global__ void k(float a, const float* x, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }"""
    x, y = RNG.standard_normal((2, n)).astype(np.float32)
    outcome = launch(source, ceil_div(n, block), block, np.float32(2), x, y, I(n))
    assert not outcome.events
    np.testing.assert_allclose(result(outcome, 2, np.float32), np.float32(2) * x + y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [5, 1000, 4099])
def test_grid_stride_loop(n: int) -> None:
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * x[i]; }"""
    x = RNG.standard_normal(n).astype(np.float32)
    outcome = launch(source, 3, 96, x, out(np.zeros_like(x)), I(n))
    assert not outcome.events
    np.testing.assert_array_equal(result(outcome, 1, np.float32), x * x)


MATMUL = """
#define T 16
extern "C" __global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[T][T], Bs[T][T];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  float acc = 0;
  for (int k0 = 0; k0 < K; k0 += T) {
    As[ty][tx] = (row < M && k0 + tx < K) ? A[row * K + k0 + tx] : 0.f;
    Bs[ty][tx] = (k0 + ty < K && col < N) ? B[(k0 + ty) * N + col] : 0.f;
    __syncthreads();
    for (int k = 0; k < T; k++) acc += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc;
}"""


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (17, 33, 5), (1, 1, 1), (50, 20, 70)])
def test_tiled_matmul(m: int, n: int, k: int) -> None:
    a, b = RNG.integers(-4, 5, (m, k)).astype(np.float32), RNG.integers(-4, 5, (k, n)).astype(np.float32)
    grid = (ceil_div(n, 16), ceil_div(m, 16))
    outcome = launch(MATMUL, grid, (16, 16), a, b, out(np.zeros((m, n), np.float32)), I(m), I(n), I(k))
    assert not outcome.events
    np.testing.assert_array_equal(result(outcome, 2, np.float32).reshape(m, n), a @ b)


ROWSUM = """
extern "C" __global__ void k(const float* x, float* y, int cols) {
  __shared__ float s[32];
  float a = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) a += x[blockIdx.x * cols + i];
  for (int o = 16; o; o >>= 1) a += __shfl_down_sync(~0u, a, o);
  if ((threadIdx.x & 31) == 0) s[threadIdx.x >> 5] = a;
  __syncthreads();
  if (threadIdx.x < 32) {
    a = threadIdx.x < blockDim.x / 32 ? s[threadIdx.x] : 0;
    for (int o = 16; o; o >>= 1) a += __shfl_down_sync(~0u, a, o);
    if (threadIdx.x == 0) y[blockIdx.x] = a;
  }
}"""


@pytest.mark.parametrize("cols", [1, 31, 100, 777])
@pytest.mark.parametrize("block", [32, 96, 256, 1024])
def test_row_sum_by_shuffles(cols: int, block: int) -> None:
    x = RNG.integers(-9, 10, (5, cols)).astype(np.float32)
    outcome = launch(ROWSUM, 5, block, x, out(np.zeros(5, np.float32)), I(cols))
    assert not outcome.events
    np.testing.assert_array_equal(result(outcome, 1, np.float32), x.sum(1))


def test_tree_reduction_in_dynamic_shared_memory() -> None:
    source = """extern "C" __global__ void k(const int* x, int* y) {
      extern __shared__ int s[];
      int t = threadIdx.x; s[t] = x[blockIdx.x * blockDim.x + t]; __syncthreads();
      for (int o = blockDim.x / 2; o > 0; o >>= 1) { if (t < o) s[t] += s[t + o]; __syncthreads(); }
      if (t == 0) atomicAdd(y, s[0]); }"""
    x = RNG.integers(-100, 100, 1024).astype(I)
    outcome = launch(source, 4, 256, x, np.zeros(1, I), shared=1024)
    assert not outcome.events
    assert result(outcome, 1, I)[0] == x.sum()


@pytest.mark.parametrize("block", [(32, 8), (32, 32), (16, 16), (8, 8)])
def test_transpose_through_shared_memory(block: tuple[int, int]) -> None:
    source = """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
      __shared__ float t[32][33];
      int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
      for (int j = 0; j < 32; j += blockDim.y) for (int i = 0; i < 32; i += blockDim.x)
        if (r + j < rows && c + i < cols) t[threadIdx.y + j][threadIdx.x + i] = x[(r + j) * cols + c + i];
      __syncthreads();
      c = blockIdx.y * 32 + threadIdx.x; r = blockIdx.x * 32 + threadIdx.y;
      for (int j = 0; j < 32; j += blockDim.y) for (int i = 0; i < 32; i += blockDim.x)
        if (r + j < cols && c + i < rows) y[(r + j) * rows + c + i] = t[threadIdx.x + i][threadIdx.y + j]; }"""
    x = RNG.standard_normal((45, 70)).astype(np.float32)
    outcome = launch(source, (3, 2), block, x, out(np.zeros_like(x)), I(45), I(70))
    assert not outcome.events
    np.testing.assert_array_equal(result(outcome, 1, np.float32).reshape(70, 45), x.T)


@pytest.mark.parametrize(
    ("type_", "dtype", "lanes"),
    [
        ("float4", np.float32, 4),
        ("float2", np.float32, 2),
        ("double2", np.float64, 2),
        ("uchar4", np.uint8, 4),
        ("short4", np.int16, 4),
        ("int4", np.int32, 4),
    ],
)
@pytest.mark.parametrize("stride", [1, 3])
def test_vector_loads_and_stores(type_: str, dtype: type, lanes: int, stride: int) -> None:
    source = f"""extern "C" __global__ void k(const {type_}* x, {type_}* y, int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i * {stride}] = x[n - 1 - i]; }}"""
    n = 77
    x = RNG.integers(0, 100, (n, lanes)).astype(dtype)
    y = np.zeros((n * stride, lanes), dtype)
    outcome = launch(source, 2, 64, x, y, I(n))
    assert not outcome.events
    expected = y.copy()
    expected[::stride] = x[::-1]
    np.testing.assert_array_equal(result(outcome, 1, dtype).reshape(y.shape), expected)


@pytest.mark.parametrize(
    ("type_", "dtype"),
    [
        ("signed char", np.int8),
        ("unsigned short", np.uint16),
        ("short", np.int16),
        ("unsigned char", np.uint8),
        ("long long", np.int64),
        ("double", np.float64),
    ],
)
def test_scalar_types_contiguous_gathered_and_scattered(type_: str, dtype: type) -> None:
    source = f"""extern "C" __global__ void k(const {type_}* x, {type_}* y, const int* p, int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ y[i] = x[p[i]] + ({type_})1; y[n + p[i]] = x[i]; }} }}"""
    n = 101
    x = RNG.integers(-50 if dtype not in (np.uint8, np.uint16) else 0, 50, n).astype(dtype)
    p = RNG.permutation(n).astype(I)
    outcome = launch(source, 2, 64, x, out(np.zeros(2 * n, dtype)), p, I(n))
    assert not outcome.events
    got = result(outcome, 1, dtype)
    np.testing.assert_array_equal(got[:n], (x[p] + 1).astype(dtype))
    np.testing.assert_array_equal(got[n:][p], x)


def test_device_functions_local_memory_and_structs() -> None:
    source = """struct P { float a; int b; char c; };
    __device__ __noinline__ float f(P p, float x) { return p.a * x + p.b + p.c; }
    __device__ __noinline__ void g(float* v, int n) { for (int i = 0; i < n; i++) v[i] = v[n - 1 - i] * 2 + i; }
    extern "C" __global__ void k(P p, float* y, int n) {
      float t[8]; for (int i = 0; i < 8; i++) t[i] = threadIdx.x + i;
      if (threadIdx.x & 1) g(t, n); else g(t, 3);
      y[threadIdx.x] = f(p, t[threadIdx.x & 7]); }"""
    import struct

    p = np.frombuffer(struct.pack("<fibxxx", 2.0, 5, 3), dtype=np.uint8)
    outcome = launch(source, 1, 64, p.view("V12")[0], out(np.zeros(64, np.float32)), I(8))
    assert not outcome.events
    expected = []
    for thread in range(64):
        t = [float(thread + i) for i in range(8)]
        n = 8 if thread & 1 else 3
        for i in range(n):
            t[i] = t[n - 1 - i] * 2 + i
        expected.append(2 * t[thread & 7] + 8)
    np.testing.assert_array_equal(result(outcome, 1, np.float32), np.array(expected, np.float32))


def test_constants_globals_and_tables() -> None:
    source = """__constant__ float c[4] = {1, 2, 3, 4}; __device__ int g[3] = {7, 8, 9}; __device__ int* pg = g + 1;
    extern "C" __global__ void k(float* y) { int t = threadIdx.x; y[t] = c[t & 3] + g[t % 3] + *pg; __syncthreads(); if (t == 0) *pg = 100; }"""
    outcome = launch(source, 1, 32, out(np.zeros(32, np.float32)))
    assert not outcome.events
    assert result(outcome, 0, np.float32).tolist() == [(t & 3) + 1 + 7 + t % 3 + 8 for t in range(32)]


def test_printf_and_assert() -> None:
    source = """#include <assert.h>
extern "C" __global__ void k(int n) {
  if (threadIdx.x < 3) printf("%d %5.2f %s %c %x %lld%%\\n", (int)threadIdx.x, 1.5 * threadIdx.x, "hi", 'z', 255, 1234567890123LL);
}"""
    outcome = launch(source.replace("#include <assert.h>\n", ""), 1, 32, I(1))
    assert outcome.printed == "".join(f"{t} {1.5 * t:5.2f} hi z ff 1234567890123%\n" for t in range(3))
    source = """extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
extern "C" __global__ void k(int n) {
  if (threadIdx.x > n)
    __assertfail("x > n", "t.cu", 3, "k", 1);
}"""
    outcome = launch(source, 1, 32, I(5))
    assert outcome.status == "trapped"
    assert "x > n" in outcome.events[0].message and outcome.events[0].location is not None
    assert outcome.events[0].location.line == 4


def test_printf_returns_the_number_of_its_arguments() -> None:
    source = """extern "C" __global__ void k(int* y) {
      y[0] = printf("100%%\\n"); y[1] = printf("%d %5.2f%%\\n", 1, 2.0); y[2] = printf("%*d %s\\n", 5, 1, "x"); }"""
    outcome = launch(source, 1, 1, out(np.zeros(3, np.int32)))
    assert result(outcome, 0, np.int32).tolist() == [0, 2, 3]
    assert outcome.printed.splitlines() == ["100%", "1  2.00%", "    1 x"]


def test_half_precision() -> None:
    source = """extern "C" __global__ void k(const unsigned short* x, unsigned short* y, int n) {
      int i = threadIdx.x; if (i >= n) return; unsigned short r;
      asm("{ .reg .f16 a, b; mov.b16 a, %1; fma.rn.f16 b, a, a, a; mov.b16 %0, b; }" : "=h"(r) : "h"(x[i])); y[i] = r; }"""
    x = RNG.standard_normal(40).astype(np.float16)
    outcome = launch(source, 1, 64, x, out(np.zeros_like(x)), I(40))
    assert not outcome.events
    expected = (x.astype(np.float64) * x + x).astype(np.float16)
    np.testing.assert_array_equal(result(outcome, 1, np.float16), expected)


def test_unsigned_halo_index_wraps() -> None:
    source = """extern "C" __global__ void k(const float* x, float* y, unsigned n) {
      unsigned i = blockIdx.x * blockDim.x + threadIdx.x; unsigned l = i - 1;
      if (i < n) y[i] = (l < n ? x[l] : 0.f) + x[i]; }"""
    x = RNG.standard_normal(100).astype(np.float32)
    outcome = launch(source, 2, 64, x, out(np.zeros_like(x)), np.uint32(100))
    assert not outcome.events
    np.testing.assert_array_equal(result(outcome, 1, np.float32), np.concatenate([[np.float32(0)], x[:-1]]) + x)


def test_recursion() -> None:
    source = """__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    __device__ __noinline__ int odd(int n);
    __device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
    __device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
    extern "C" __global__ void k(int* x) { int t = threadIdx.x; int a = 100 * t; x[t] = a + fib(t % 11) + 10000 * even(t); }"""
    outcome = launch(source, 1, 50, out(np.zeros(50, I)))
    assert not outcome.events
    fib = [0, 1]
    while len(fib) < 11:
        fib.append(fib[-1] + fib[-2])
    assert result(outcome, 0, I).tolist() == [100 * t + fib[t % 11] + 10000 * (t % 2 == 0) for t in range(50)]


def test_endless_recursion_overflows() -> None:
    source = """__device__ __noinline__ int f(int n, int* p) {
      return f(n + 1, p) * 2 + p[n]; }
    extern "C" __global__ void k(int* x) { x[threadIdx.x] = f(0, x); }"""
    outcome = launch(source, 1, 32, out(np.zeros(32, I)))
    assert outcome.status == "trapped"
    assert outcome.events[0].rule == "sync/trap"


def test_function_pointers() -> None:
    source = """typedef int (*op)(int, int);
    __device__ __noinline__ int add(int a, int b) { return a + b; }
    __device__ __noinline__ int mul(int a, int b) { return a * b; }
    __device__ __noinline__ int sub(int a, int b) { int s = 0; for (int i = 0; i < a; i++) s += i; return s - b; }
    __device__ op table[3] = {add, mul, sub};
    extern "C" __global__ void k(int* y, int n) { int t = threadIdx.x; y[t] = table[t % 3](t, 5) + table[n](t, 2); }"""
    outcome = launch(source, 1, 40, out(np.zeros(40, I)), I(1))
    assert not outcome.events
    expected = [[t + 5, t * 5, sum(range(t)) - 5][t % 3] + 2 * t for t in range(40)]
    assert result(outcome, 0, I).tolist() == expected
