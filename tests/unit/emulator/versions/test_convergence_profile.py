"""Speculation on divergent loop branches: same results, faults and bits as without it, and the fallback's entry."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import artifact, compile_ptx

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.ir.lattice import thread_block_shape
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CheckerMode, CompiledKernel
from gpuemu_lsp.engine.emulator.versions.convergence_profile import ConvergenceProfile
from gpuemu_lsp.engine.execution import Buffer, Checks, Outcome, Request, Scalar

# NVRTC unrolls both loops; the second one depends on what the first one's lanes did.
ROWS = """extern "C" __global__ void k(const float* x, float* y, int first, int later) {
  __shared__ float part[64];
  int t = threadIdx.x, cols = blockIdx.x < 8 ? first : later;
  x += blockIdx.x * 600;
  y += blockIdx.x * 600;
  float sum = 0;
  for (int c = t; c < cols; c += 64) sum += x[c] * (c + 1);
  part[t] = sum;
  __syncthreads();
  float mine = part[t ^ 1];
  for (int c = t; c < cols; c += 64) y[c] = x[c] + mine;
}"""
GRID = 24


def run(emulator: Emulator, first: int, later: int, missing: int = 0) -> Outcome:
    x = np.arange(GRID * 600, dtype=np.float32) % 7
    arguments = (
        Buffer("x", x[: x.size - missing].view(np.uint8)),
        Buffer("y", np.zeros(4 * x.size, np.uint8), initialized=False),
        *(Scalar(name, np.int32(value).tobytes()) for name, value in (("first", first), ("later", later))),
    )
    ptx = compile_ptx(ROWS)
    return emulator.run(Request(artifact(ptx), "k", (GRID, 1, 1), (64, 1, 1), 0, arguments, Checks(races=False)))


def kernel_of(emulator: Emulator) -> CompiledKernel:
    return emulator._library.kernel(compile_ptx(ROWS), "k")[0]


def has_fallback(emulator: Emulator) -> bool:
    code = kernel_of(emulator).specialised((64, 1, 1), CheckerMode.MEMORY)[1]
    return code is not None and code.fallback is not None


@pytest.mark.parametrize(
    ("first", "later", "stay"),
    [(512, 512, True), (512, 545, False), (512, 500, False), (20, 20, True), (0, 512, True)],
    ids=["converged", "one warp diverges later", "the other warp", "always divergent", "another branch later"],
)
def test_results_do_not_depend_on_speculation(first: int, later: int, stay: bool) -> None:
    baseline, speculating = Emulator(), Emulator(optimised=True)
    expected = run(baseline, first, later)
    assert not has_fallback(baseline)
    for _ in range(3):
        found = run(speculating, first, later)
        assert found.status == expected.status == "completed"
        assert not found.events
        assert np.array_equal(found.buffers["y"], expected.buffers["y"])
        assert np.array_equal(found.written["y"], expected.written["y"])
    assert has_fallback(speculating) is stay


def test_faults_are_the_same_with_speculation() -> None:
    baseline, speculating = Emulator(), Emulator(optimised=True)
    run(speculating, 512, 512)
    assert has_fallback(speculating)
    for cols in (512, 531, 600):
        expected, found = (run(emulator, 512, cols, missing=100) for emulator in (baseline, speculating))
        assert bool(expected.events) is (cols > 500)
        assert found.events == expected.events
        assert np.array_equal(found.written["y"], expected.written["y"])


def test_branches_that_rarely_diverge_are_speculated_uniform() -> None:
    profile = ConvergenceProfile()
    assert not profile.speculated(frozenset({1, 2}))
    profile.record([0, 5, 1, 0], 8)
    profile.decide([0, 0, 1, 0], 4)
    assert profile.speculated(frozenset({1, 2})) == {2}
    profile.disable()
    assert not profile.speculated(frozenset({1, 2}))


def test_low_bits_of_the_thread_number_have_a_form_per_part() -> None:
    source = """extern "C" __global__ void k(const float* x, float* y) {
      __shared__ float part[320];
      int t = threadIdx.x, low = t & 15, high = t >> 4;
      part[t] = x[t];
      __syncthreads();
      y[t] = part[high * 3] + 2 * part[low + 5];
    }"""
    ptx = compile_ptx(source)
    x = np.arange(256, dtype=np.float32)
    arguments = Buffer("x", x.view(np.uint8)), Buffer("y", np.zeros(1024, np.uint8))
    outcome = Emulator().run(Request(artifact(ptx), "k", (1, 1, 1), (256, 1, 1), 0, arguments))
    assert not outcome.events
    t = np.arange(256)
    assert np.array_equal(outcome.buffers["y"].view(np.float32), x[t // 16 * 3] + 2 * x[t % 16 + 5])
    assert thread_block_shape((256, 1, 1), 16).x.zeros >= 4
