"""Accesses that cannot race are not instrumented, and are after all where barriers do not pair up as assumed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.emulator_launch import compile_ptx, launch

from gpuemu_lsp.engine.emulator.analysis.race_candidates import find_race_candidates
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.execution import Checks
from gpuemu_lsp.engine.ptx.parser import parse


def instrumented(body: str, block: tuple[int, int, int] | None = None) -> Counter[str]:
    """Count the instrumented instructions by kind, such as ``ld.shared``; for blocks of any size by default."""
    source = f'extern "C" __global__ void k(const int* x, int* y, int n) {{ const int t = threadIdx.x; {body} }}'
    kernel = CompiledKernel(parse(compile_ptx(source)), "k")
    sites = find_race_candidates(kernel.program, block, aliased=False).sites
    instructions = [kernel.sites[site][0] for site in sites]
    names = {"red": "atom"}
    return Counter(f"{names.get(one.opcode, one.opcode)}.{one.modifiers[0]}" for one in instructions if one is not None)


def test_reads_between_barriers_without_writes_are_not_instrumented() -> None:
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
    assert instrumented(body.replace("BARRIER", "__syncthreads();")) == {"st.shared": 1, "st.global": 1}
    assert instrumented(body.replace("BARRIER", ""))["ld.shared"] > 0
    assert instrumented(body.replace("BARRIER", "__syncwarp();"))["ld.shared"] > 0
    assert instrumented(body.replace("BARRIER", "if (k & 1) __syncthreads();"))["ld.shared"] > 0
    assert instrumented(body.replace("BARRIER", 'asm volatile("bar.sync 0, 64;");'))["ld.shared"] > 0
    assert instrumented(body.replace("BARRIER", 'asm volatile("bar.sync 1;");'))["ld.shared"] > 0


def test_addresses_that_are_only_updated_atomically_are_not_instrumented() -> None:
    bins = "__shared__ int s[64]; if (t < 64) s[t] = 0; __syncthreads(); atomicAdd(&s[x[t] & 63], 1);"
    flush = "if (t < 64) atomicAdd(&y[t], s[t]);"
    assert instrumented(f"{bins} __syncthreads(); {flush}") == {"st.shared": 1}
    conflicting = instrumented(f"{bins} {flush}")
    assert conflicting["ld.shared"] == 1
    assert conflicting["atom.shared"] == 1
    assert conflicting["atom.global"] == 0
    assert instrumented("atomicAdd(&y[0], 1); if (t == 5) y[n] = 3;")["atom.global"] == 1


DISJOINT = {
    "own element": ("s[t] = n; y[t] = s[t];", (256, 1, 1)),
    "a transposed tile with padding": ("s[t / 16 * 17 + t % 16] = n; y[t] = s[t / 16 * 17 + t % 16];", (256, 1, 1)),
    "two dimensions": ("s[threadIdx.y * 16 + t] = n;", (16, 8, 1)),
    "three dimensions": ("s[(threadIdx.z * 4 + threadIdx.y) * 8 + t] = n;", (8, 4, 2)),
    "a swizzle": ("s[t ^ (t >> 3)] = n;", (256, 1, 1)),
    "vectors": ("((int4*)s)[t] = make_int4(n, 1, 2, 3); y[t] = s[4 * t + 3];", (64, 1, 1)),
    "bytes": ("((char*)s)[t] = n;", (256, 1, 1)),
    "one thread": ("if (t == 0) { s[0] = n; y[0] = s[0]; }", (256, 1, 1)),
    "halves": ("if (t < 128) { s[t] = n; y[t] = s[t + 128]; }", (256, 1, 1)),
    "a choice": ("s[t < 32 ? t + 224 : t - 32] = n;", (256, 1, 1)),
    "backwards": ("s[255 - t] = n;", (256, 1, 1)),
    "a tree of threads": ("s[t] = n; __syncthreads(); if (t < 64) s[t] += s[t + 64]; __syncthreads();", (128, 1, 1)),
}
CONFLICTING = {
    "the neighbour": ("s[t] = n; y[t] = s[t + 1];", (256, 1, 1)),
    "rows that are too short": ("s[t / 16 * 15 + t % 16] = n;", (256, 1, 1)),
    "two dimensions": ("s[threadIdx.y * 15 + t] = n;", (16, 8, 1)),
    "a larger block": ("s[t & 127] = n;", (256, 1, 1)),
    "bytes of one word": ("((char*)s)[t] = n; y[t] = s[t / 4];", (256, 1, 1)),
    "vectors that overlap": ("s[4 * t] = n; y[t] = ((int4*)s)[t / 2].x;", (64, 1, 1)),
    "two threads": ("if (t < 2) s[0] = t;", (256, 1, 1)),
    "halves, one too many": ("if (t < 129) { s[t] = n; y[t] = s[t + 128]; }", (256, 1, 1)),
    "an index that is loaded": ("s[y[t]] = n;", (256, 1, 1)),
    "an index that depends on the iteration": ("for (int i = 0; i < n; ++i) s[(t + i) & 255] = i;", (256, 1, 1)),
    "a branch on what is loaded": ("if (y[t]) s[0] = t;", (256, 1, 1)),
    "a tree of threads": ("s[t] = n; __syncthreads(); if (t < 65) s[t] += s[t + 64]; __syncthreads();", (128, 1, 1)),
}


@pytest.mark.parametrize("name", DISJOINT)
def test_disjoint_addresses_are_not_instrumented(name: str) -> None:
    body, block = DISJOINT[name]
    found = instrumented(f"extern __shared__ __align__(16) int s[]; {body} y[n] = 0;", block)
    assert not {kind for kind in found if kind.endswith("shared")}
    assert instrumented(f"extern __shared__ __align__(16) int s[]; {body}", None)["st.shared"]


@pytest.mark.parametrize("name", CONFLICTING)
def test_shared_addresses_are_instrumented(name: str) -> None:
    body, block = CONFLICTING[name]
    assert instrumented(f"extern __shared__ __align__(16) int s[]; {body}", block)["st.shared"]


def test_asynchronous_copies_may_complete_after_the_barrier() -> None:
    body = """
      __shared__ int s[256];
      const unsigned at = (unsigned)__cvta_generic_to_shared(s + t);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(x + t) : "memory");
      __syncthreads();
      WAIT
      y[t] = s[n];"""
    wait = 'asm volatile("cp.async.wait_all;" ::: "memory");'
    assert instrumented(body.replace("WAIT", wait))["ld.shared"] == 1
    assert instrumented(body.replace("WAIT", f"{wait} __syncthreads();"))["ld.shared"] == 0


def test_barriers_of_different_branches_repeat_the_launch_with_more_instrumentation() -> None:
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
