"""Races of bulk copies with accesses of threads: what orders them, and what does not."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import Checks, launch, out, result, rules
from support.hopper_kernels import compiled

HELPERS = r"""
typedef unsigned long long u64;
__device__ __forceinline__ unsigned shared(const void* p) { return __cvta_generic_to_shared(p); }
__device__ __forceinline__ void init(u64* bar, int n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared(bar)), "r"(n) : "memory");
}
__device__ __forceinline__ void arrive(u64* bar) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(shared(bar)) : "memory");
}
__device__ __forceinline__ void load(void* to, const void* from, int bytes, u64* bar) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(shared(bar)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(shared(to)), "l"(from), "r"(bytes), "r"(shared(bar)) : "memory");
}
__device__ __forceinline__ void wait(u64* bar, int parity) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra again; }" :: "r"(shared(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void fence_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void store(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
    :: "l"(to), "r"(shared(from)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void store_wait() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
#define KERNEL extern "C" __global__ void
"""

BLOCK, STEPS = 96, 5
PIPELINE = r"""
KERNEL k(const int* x, int* y) {
  __shared__ alignas(128) int s[2][96];
  __shared__ u64 full[2];
  int t = threadIdx.x, sum = 0;
  if (t == 0) {
    init(&full[0], 1); init(&full[1], 1); fence_proxy();
    load(s[0], x, 384, &full[0]); load(s[1], x + 96, 384, &full[1]);
  }
  __syncthreads();
  for (int step = 0; step < 5; ++step) {
    /*wait*/ wait(&full[step % 2], step / 2 % 2);
    sum += s[step % 2][95 - t];
    /*read*/ __syncthreads();
    if (t == 0 && step + 2 < 5) load(s[step % 2], x + (step + 2) * 96, 384, &full[step % 2]);
  }
  y[t] = sum;
}
"""
SPECIALISED = r"""
KERNEL k(const int* x, int* y) {
  __shared__ alignas(128) int s[2][64];
  __shared__ u64 full[2], empty[2];
  int t = threadIdx.x, sum = 0;
  if (t == 0) { for (int i = 0; i < 2; ++i) { init(&full[i], 1); init(&empty[i], 64); } fence_proxy(); }
  __syncthreads();
  if (t >= 64) {
    for (int step = 0; t == 64 && step < 5; ++step) {
      if (step >= 2) wait(&empty[step % 2], (step / 2 + 1) % 2);
      load(s[step % 2], x + step * 64, 256, &full[step % 2]);
    }
    return;
  }
  for (int step = 0; step < 5; ++step) {
    wait(&full[step % 2], step / 2 % 2);
    /*early*/
    sum += s[step % 2][63 - t];
    /*late*/ arrive(&empty[step % 2]);
  }
  y[t] = sum;
}
"""
STORED = r"""
KERNEL k(const int* x, int* y) {
  __shared__ alignas(128) int s[96];
  int t = threadIdx.x;
  for (int step = 0; step < 3; ++step) {
    s[t] = x[step * 96 + t];
    fence_proxy();
    /*stored*/ __syncthreads();
    if (t == 0) { store(y + step * 96, s, 384); store_wait(); }
    /*waited*/ __syncthreads();
  }
}
"""
FLAGGED = PIPELINE.replace("/*wait*/ wait", "if (t < 32) wait").replace("sum +=", "/*others*/ __syncthreads(); sum +=")


def _run(source, width, block, **more):
    x = np.random.default_rng(3).integers(0, 99, STEPS * width).astype(np.int32)
    size = 3 * width if "store_wait();" in source else width
    outcome = launch(compiled(HELPERS + source), 1, block, x, out(np.zeros(size, np.int32)), max_seconds=5.0, **more)
    return x.reshape(STEPS, width), outcome


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("source", "width", "block"), [(PIPELINE, 96, 96), (FLAGGED, 96, 96), (SPECIALISED, 64, 96), (STORED, 96, 96)]
)
def test_correct_kernels_are_silent(source, width, block, descending):
    x, outcome = _run(source, width, block, descending=descending)
    assert not outcome.events, outcome.events
    wanted = x[:3].reshape(-1) if source is STORED else x[:, ::-1].sum(axis=0)
    assert np.array_equal(result(outcome, 1, np.int32), wanted)


BUGS = {
    "refilled without a barrier": (
        PIPELINE.replace("/*read*/ __syncthreads();", ""), 96, "nothing orders this access before the bulk copy is issued"
    ),
    "waited for by one warp": (
        FLAGGED.replace("/*others*/ __syncthreads();", ""), 96, "only a wait for the mbarrier that the copy completes on"
    ),
    "released before the read": (
        SPECIALISED.replace("/*late*/ arrive(&empty[step % 2]);", "").replace("/*early*/", "arrive(&empty[step % 2]);"), 64,
        "nothing orders this access before the bulk copy is issued",
    ),
    "stored without a barrier": (
        STORED.replace("/*stored*/ __syncthreads();", ""), 96, ""
    ),
    "written without a barrier behind the wait": (
        STORED.replace("/*waited*/ __syncthreads();", ""), 96, "only `cp.async.bulk.wait_group.read` orders it"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_race_is_found_in_some_order(name):
    source, width, text = BUGS[name]
    events = [
        event for descending in (False, True) for event in _run(source, width, 96, descending=descending)[1].events
    ]
    found = [event for event in events if event.rule == "memory/shared-race"]
    assert found and any(text in event.message for event in found), [(e.rule, e.message) for e in events]
    assert any("the bulk copy" in event.message for event in found)


def test_a_race_names_the_threads_access_and_the_copy():
    _, outcome = _run(BUGS["waited for by one warp"][0], 96, 96)
    assert rules(outcome) == ["memory/shared-race"]
    event = outcome.events[0]
    lines = (HELPERS + PIPELINE).splitlines()
    read = next(number for number, line in enumerate(lines, 1) if "sum += s" in line)
    assert event.location is not None and event.other is not None
    assert event.location.line == read and event.data["other_instruction"].startswith("cp.async.bulk.shared::cluster")
    assert f"the bulk copy in line {event.other.line} writes it without" in event.message
    assert event.data["other_thread"] is None


def test_programs_of_several_warps_are_judged_too():
    # Triton orders the accesses of its threads; what a program gives to the proxy it orders itself (Gluon).
    checks = Checks(block_races=False)
    assert not _run(FLAGGED, 96, 96, checks=checks)[1].events
    assert not _run(SPECIALISED, 64, 96, checks=checks)[1].events
    _, outcome = _run(BUGS["waited for by one warp"][0], 96, 96, checks=checks)
    assert rules(outcome) == ["memory/shared-race"] and outcome.events[0].severity is None
    assert "only a wait for the mbarrier" in outcome.events[0].message


def test_a_block_too_large_for_the_proxy_is_not_judged():
    # There are no thread numbers left for it.
    source = PIPELINE.replace("/*read*/ __syncthreads();", "").replace("96", "1024").replace("384", "4096")
    x = np.zeros(5 * 1024, np.int32)
    outcome = launch(compiled(HELPERS + source.replace("95", "1023")), 1, 1024, x, out(np.zeros(1024, np.int32)))
    assert "memory/shared-race" not in rules(outcome)
