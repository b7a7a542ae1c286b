"""Baseline and optimised tier: the same bits from both, and from a launch that is promoted in between."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import artifact, compile_ptx

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.versions import compiled_kernel
from gpuemu_lsp.engine.execution import Buffer, Outcome, Request

SUMS = """extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float part[64];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < 40; i++) {
    part[t] = x[blockIdx.x * 64 + t] + i;
    __syncthreads();
    sum += part[(t + i) & 63];
    __syncthreads();
    if (t % 3 == i % 3) sum *= 0.5f;
  }
  y[blockIdx.x * 64 + t] = sum;
}"""

SPIN = """extern "C" __global__ void k(const volatile int* x, int* y) {
  int last = 0;
#pragma unroll 1
  for (int i = 0; i < 600000; i++) last = last * 3 + x[i & 63];
  y[threadIdx.x] = last;
}"""

ARITHMETIC = """extern "C" __global__ void k(const unsigned* x, float* y) {
  int t = blockIdx.x * 64 + threadIdx.x;
  float a = __uint_as_float(x[t]), b = __uint_as_float(x[t ^ 1]), c = __uint_as_float(x[t ^ 3]), r;
  int n = 0;
#define KEEP y[t + 4096 * n++] = r
  r = a + b; KEEP; r = a * b; KEEP; r = a * b + c; KEEP; r = __fadd_rn(__fmul_rn(a, b), c); KEEP; r = a / b; KEEP;
  r = fminf(a, b); KEEP; r = fmaxf(b, c); KEEP; r = sqrtf(fabsf(a)); KEEP; r = (a + b) + c; KEEP; r = a - b - c; KEEP;
  r = expf(a); KEEP; r = __sinf(b); KEEP; r = __fmaf_rd(a, b, c); KEEP; r = __frcp_ru(b); KEEP; r = rsqrtf(c); KEEP;
  r = a > b ? a - b : b - a; KEEP; r = truncf(a) + floorf(b); KEEP; r = (float)(a * (double)b + c); KEEP;
}"""


def run(emulator: Emulator, source: str, grid: int, x: np.ndarray, size: int, *options: str) -> Outcome:
    buffers = Buffer("x", x.view(np.uint8)), Buffer("y", np.zeros(size, np.uint8), initialized=False)
    return emulator.run(Request(artifact(compile_ptx(source, *options)), "k", (grid, 1, 1), (64, 1, 1), 0, buffers))


@pytest.mark.parametrize("source", [SUMS, SPIN], ids=["blocks", "a long loop"])
def test_a_launch_is_promoted(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[bool] = []
    load = compiled_kernel.load_or_compile
    monkeypatch.setattr(
        compiled_kernel,
        "load_or_compile",
        lambda *a, optimised: levels.append(optimised) or load(*a, optimised=optimised),
    )
    grid = 64 if source is SUMS else 1
    x = np.random.default_rng(0).integers(0, 100, 64 * grid, dtype=np.int32)
    x = x.astype(np.float32) if source is SUMS else x
    expected = run(Emulator(optimised=True), source, grid, x, 4 * x.size)
    assert levels == [True]
    monkeypatch.setattr(compiled_kernel.CompiledKernel, "optimisation_ms", 0.0)
    found = run(Emulator(), source, grid, x, 4 * x.size)
    assert levels == [True, False, True]
    assert expected.status == found.status == "completed"
    assert not found.events
    assert np.array_equal(found.buffers["y"], expected.buffers["y"])


@pytest.mark.parametrize("options", [(), ("--use_fast_math",)], ids=["exact", "fast math"])
def test_both_tiers_give_the_same_bits(options: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 1 << 32, 4096, dtype=np.uint32)
    special = np.array([0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000], np.uint32)
    x[::5] = rng.choice(special, x[::5].size)
    results = [run(Emulator(optimised=level), ARITHMETIC, 64, x, 18 * 4 * 4096, *options) for level in (False, True)]
    one, other = (outcome.buffers["y"].view(np.uint32).reshape(18, 4096) for outcome in results)
    nan = np.isnan(one.view(np.float32)) & np.isnan(other.view(np.float32))  # which of two NaNs goes on is not defined
    differ = np.argwhere((one != other) & ~nan)
    assert not differ.size, [(int(i), hex(x[j]), hex(one[i, j]), hex(other[i, j])) for i, j in differ[:4]]
