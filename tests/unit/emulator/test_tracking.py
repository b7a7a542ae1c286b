"""What the race checker need not look at, and that it looks again where its reasons do not hold."""

from __future__ import annotations

from collections import Counter

import numpy as np
from emulator_launch import compile_ptx, launch

from gpuemu_lsp.engine.emulator.kernels import Kernel, Watching
from gpuemu_lsp.engine.execution import Checks
from gpuemu_lsp.engine.ptx.parser import parse


def watched(body: str) -> Counter[str]:
    """Return how many instructions of each kind are watched, as ``ld.shared``."""
    source = f'extern "C" __global__ void k(const int* x, int* y, int n) {{ const int t = threadIdx.x; {body} }}'
    kernel = Kernel(parse(compile_ptx(source)), "k")
    sites = kernel.tracking(Watching.APART).sites
    instructions = [kernel.sites[site][0] for site in sites]
    names = {"red": "atom"}
    return Counter(f"{names.get(one.opcode, one.opcode)}.{one.modifiers[0]}" for one in instructions if one is not None)


def test_reads_between_barriers_without_writes_are_not_watched() -> None:
    body = """
      __shared__ int s[256];
      int sum = 0;
      for (int k = 0; k < n; ++k) {
        s[t] = x[k];
        __syncthreads();
        for (int j = 0; j < n; ++j) sum += s[(t * j) & 255];
        BARRIER
      }
      y[t] = sum;"""
    assert watched(body.replace("BARRIER", "__syncthreads();")) == {"st.shared": 1, "st.global": 1}
    assert watched(body.replace("BARRIER", ""))["ld.shared"] > 0
    assert watched(body.replace("BARRIER", "__syncwarp();"))["ld.shared"] > 0
    assert watched(body.replace("BARRIER", "if (k & 1) __syncthreads();"))["ld.shared"] > 0
    assert watched(body.replace("BARRIER", 'asm volatile("bar.sync 0, 64;");'))["ld.shared"] > 0
    assert watched(body.replace("BARRIER", 'asm volatile("bar.sync 1;");'))["ld.shared"] > 0


def test_what_is_only_updated_atomically_is_not_watched() -> None:
    bins = "__shared__ int s[64]; if (t < 64) s[t] = 0; __syncthreads(); atomicAdd(&s[x[t] & 63], 1);"
    flush = "if (t < 64) atomicAdd(&y[t], s[t]);"
    assert watched(f"{bins} __syncthreads(); {flush}") == {"st.shared": 1}
    together = watched(f"{bins} {flush}")
    assert together["ld.shared"] == 1
    assert together["atom.shared"] == 1
    assert together["atom.global"] == 0
    assert watched("atomicAdd(&y[0], 1); if (t == 5) y[n] = 3;")["atom.global"] == 1


def test_copies_may_arrive_behind_the_barrier() -> None:
    body = """
      __shared__ int s[256];
      const unsigned at = (unsigned)__cvta_generic_to_shared(s + t);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(x + t) : "memory");
      __syncthreads();
      WAIT
      y[t] = s[n];"""
    wait = 'asm volatile("cp.async.wait_all;" ::: "memory");'
    assert watched(body.replace("WAIT", wait))["ld.shared"] == 1
    assert watched(body.replace("WAIT", f"{wait} __syncthreads();"))["ld.shared"] == 0


def test_threads_that_meet_at_different_barriers_are_watched_again() -> None:
    source = """extern "C" __global__ void k(int* y) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = t;
  if (t < 32) {
    __syncthreads();
    s[t] = y[t];
    __syncthreads();
  } else {
    __syncthreads();
    y[t] = s[t - 32];
    __syncthreads();
  }
}
"""
    y = np.arange(100, 164, dtype=np.int32)
    for _ in range(2):
        outcome = launch(source, 1, 64, y, checks=Checks(uninitialized=False))
        races = [event for event in outcome.events if event.rule == "memory/shared-race"]
        assert {place.line for event in races for place in (event.location, event.other) if place} == {7, 11}
