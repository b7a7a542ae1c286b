"""Atomics, warp collectives, barriers and waiting threads in complete kernels, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, result

I = np.int32  # noqa: E741
RNG = np.random.default_rng(7)

ATOMICS = [
    ("atomicAdd(y + (t & 3), x[t])", np.int32, np.add, 0),
    ("atomicMax(y + (t & 3), x[t])", np.int32, np.maximum, -1000),
    ("atomicMin(y + (t & 3), x[t])", np.int32, np.minimum, 1000),
    ("atomicAdd(y + (t & 3), x[t])", np.float32, np.add, 0),
    ("atomicAdd(y + (t & 3), x[t])", np.float64, np.add, 0),
    ("atomicOr(y + (t & 3), x[t])", np.int32, np.bitwise_or, 0),
    ("atomicXor(y + (t & 3), x[t])", np.uint32, np.bitwise_xor, 0),
]


@pytest.mark.parametrize(("call", "dtype", "ufunc", "start"), ATOMICS)
def test_atomics(call: str, dtype: type, ufunc: np.ufunc, start: int) -> None:
    name = {np.int32: "int", np.uint32: "unsigned", np.float32: "float", np.float64: "double"}[dtype]
    source = f"""extern "C" __global__ void k(const {name}* x, {name}* y) {{
      int t = blockIdx.x * blockDim.x + threadIdx.x; {call}; }}"""
    x = RNG.integers(0 if dtype == np.uint32 else -99, 99, 200).astype(dtype)
    outcome = launch(source, 2, 100, x, np.full(4, start, dtype))
    assert not outcome.events
    expected = [ufunc.reduce(x[i::4], initial=dtype(start)) for i in range(4)]
    np.testing.assert_array_equal(result(outcome, 1, dtype), np.array(expected, dtype))


def test_atomic_return_values_are_a_permutation() -> None:
    source = """extern "C" __global__ void k(int* c, int* y) { y[atomicAdd(c, 1)] = threadIdx.x + blockDim.x * blockIdx.x;
      atomicCAS(c + 1, 0, 5); atomicExch(c + 2, 9); atomicInc((unsigned*)c + 3, 6u); }"""
    outcome = launch(source, 3, 50, np.zeros(4, I), out(np.zeros(150, I)))
    assert not outcome.events
    assert sorted(result(outcome, 1, I)) == list(range(150))
    assert result(outcome, 0, I).tolist() == [150, 5, 9, 150 % 7]


def test_warp_collectives() -> None:
    source = """extern "C" __global__ void k(unsigned* y) {
      unsigned t = threadIdx.x, lane = t & 31; unsigned* o = y + t * 12;
      o[0] = __ballot_sync(~0u, lane % 3 == 0); o[1] = __any_sync(~0u, lane == 40); o[2] = __all_sync(~0u, lane < 32);
      o[3] = __match_any_sync(~0u, lane / 5); int p; o[4] = __match_all_sync(~0u, 7, &p); o[5] = p;
      o[6] = __reduce_add_sync(~0u, lane); o[7] = __reduce_max_sync(~0u, lane * 7 % 32);
      o[8] = __shfl_sync(~0u, lane, (lane * 5) & 31); o[9] = __shfl_up_sync(~0u, lane, 3, 8);
      o[10] = __shfl_xor_sync(~0u, lane, 17); o[11] = __activemask(); }"""
    outcome = launch(source, 1, 64, out(np.zeros(64 * 12, np.uint32)))
    assert not outcome.events
    got = result(outcome, 0, np.uint32).reshape(64, 12)
    for thread in range(64):
        lane = thread % 32
        groups = sum(1 << other for other in range(32) if other // 5 == lane // 5)
        up = lane - 3 if lane % 8 >= 3 else lane
        ballot = sum(1 << other for other in range(0, 32, 3))
        expected = [ballot, 0, 1, groups, 0xFFFFFFFF, 1, 496, 31, lane * 5 % 32, up, lane ^ 17, 0xFFFFFFFF]
        assert got[thread].tolist() == expected


def test_collectives_in_divergent_code_with_partial_masks() -> None:
    source = """extern "C" __global__ void k(int* y) {
      int lane = threadIdx.x & 31, v = lane;
      if (lane < 8) v = __shfl_xor_sync(0xffu, v, 1) + 100;
      else if (lane < 24) { for (int i = 0; i < lane; i++) v += i; v = __shfl_sync(0x00ffff00u, v, 9); }
      __syncwarp();
      unsigned m = __ballot_sync(0xffffffffu, v & 1);
      y[threadIdx.x] = v + (m == 0 ? 1000 : 0); }"""
    outcome = launch(source, 1, 32, out(np.zeros(32, I)))
    assert not outcome.events
    nine = 9 + sum(range(9))
    expected = [(lane ^ 1) + 100 for lane in range(8)] + [nine] * 16 + list(range(24, 32))
    assert result(outcome, 0, I).tolist() == expected


def test_named_barriers_and_reductions() -> None:
    source = """extern "C" __global__ void k(int* y) {
      int t = threadIdx.x; __shared__ int s[128];
      s[t] = t;
      if (t < 64) asm volatile("bar.sync 1, 64;" ::: "memory"); else asm volatile("bar.sync 2, 64;" ::: "memory");
      int v = s[t ^ 33];
      int c = __syncthreads_count(t % 3 == 0); int a = __syncthreads_and(t < 128); int o = __syncthreads_or(t == 500);
      y[t] = v + 1000 * c + 1000000 * a + 2000000 * o; }"""
    outcome = launch(source, 2, 128, out(np.zeros(128, I)))
    assert not outcome.events
    expected = [(t ^ 33) + 1000 * 43 + 1000000 for t in range(128)]
    assert result(outcome, 0, I).tolist() == expected


def test_producer_and_consumer_warps_with_arrive() -> None:
    source = """extern "C" __global__ void k(int* y) {
      __shared__ int s[32]; int t = threadIdx.x;
      for (int r = 0; r < 3; r++) {
        if (t < 32) { s[t] = t * 10 + r; asm volatile("bar.arrive 1, 64;" ::: "memory"); asm volatile("bar.sync 2, 64;" ::: "memory"); }
        else { asm volatile("bar.sync 1, 64;" ::: "memory"); y[r * 32 + t - 32] = s[63 - t]; asm volatile("bar.arrive 2, 64;" ::: "memory"); }
      } }"""
    outcome = launch(source, 1, 64, out(np.zeros(96, I)))
    assert not outcome.events, outcome.events
    assert result(outcome, 0, I).tolist() == [(31 - t) * 10 + r for r in range(3) for t in range(32)]


def test_spin_lock_between_lanes_of_one_warp() -> None:
    source = """extern "C" __global__ void k(int* lock, int* y) {
      bool done = false;
      while (!done) { if (atomicCAS(lock, 0, 1) == 0) { y[0] += 1; __threadfence(); atomicExch(lock, 0); done = true; } } }"""
    outcome = launch(source, 2, 64, np.zeros(1, I), np.zeros(1, I))
    assert not outcome.events
    assert result(outcome, 1, I)[0] == 128


def test_naive_spin_lock_needs_independent_thread_scheduling() -> None:
    source = """extern "C" __global__ void k(int* lock, volatile int* y) {
      while (atomicCAS(lock, 0, 1) != 0) ;
      y[0] = y[0] + 1; __threadfence(); atomicExch(lock, 0); }"""
    outcome = launch(source, 1, 64, np.zeros(1, I), np.zeros(1, I))
    assert not outcome.events
    assert result(outcome, 1, I)[0] == 64


def test_lane_waits_for_another_lane_of_its_warp() -> None:
    source = """extern "C" __global__ void k(volatile int* flag, int* y) {
      if (threadIdx.x == 0) { while (flag[0] == 0) ; y[0] = flag[1]; }
      else if (threadIdx.x == 31) { flag[1] = 42; __threadfence(); flag[0] = 1; } }"""
    outcome = launch(source, 1, 32, np.zeros(2, I), out(np.zeros(1, I)))
    assert not outcome.events
    assert result(outcome, 1, I)[0] == 42


def test_block_waits_for_a_later_block() -> None:
    source = """extern "C" __global__ void k(volatile int* flag, int* y) {
      if (threadIdx.x == 0) { if (blockIdx.x < gridDim.x - 1) { while (flag[blockIdx.x + 1] == 0) ; }
        y[blockIdx.x] = flag[blockIdx.x + 1] + 1; __threadfence(); flag[blockIdx.x] = y[blockIdx.x]; }
      __syncthreads(); }"""
    outcome = launch(source, 5, 64, np.zeros(6, I), out(np.zeros(5, I)))
    assert not outcome.events
    assert result(outcome, 1, I).tolist() == [5, 4, 3, 2, 1]


def test_grid_barrier_by_atomics() -> None:
    source = """extern "C" __global__ void k(unsigned* c, int* x, int* y) {
      int t = blockIdx.x * blockDim.x + threadIdx.x;
      x[t] = t; __threadfence(); __syncthreads();
      if (threadIdx.x == 0) { atomicAdd(c, 1); while (*(volatile unsigned*)c < gridDim.x) ; }
      __syncthreads();
      y[t] = x[gridDim.x * blockDim.x - 1 - t]; }"""
    outcome = launch(source, 6, 64, np.zeros(1, np.uint32), out(np.zeros(384, I)), out(np.zeros(384, I)))
    assert not outcome.events
    assert result(outcome, 2, I).tolist() == list(range(383, -1, -1))


ROLES = """extern "C" __global__ void k(int* y) {
  __shared__ int s[64];
  if (threadIdx.x < 32) {
    s[threadIdx.x] = threadIdx.x;
    BARRIER
    y[threadIdx.x] = s[threadIdx.x + 32];
  } else {
    s[threadIdx.x] = threadIdx.x;
    BARRIER
    y[threadIdx.x] = s[threadIdx.x - 32];
  }
}"""


@pytest.mark.parametrize("barrier", ["barrier.sync 1;", "barrier.sync 0;", "bar.sync 1;", "bar.sync 1, 64;"])
def test_warps_with_different_roles_meet_at_a_barrier(barrier: str) -> None:
    source = ROLES.replace("BARRIER", f'asm volatile("{barrier}" ::: "memory");')
    outcome = launch(source, 1, 64, np.zeros(64, np.int32))
    assert not outcome.events
    assert result(outcome, 0, np.int32).tolist() == [*range(32, 64), *range(32)]


def test_block_barrier_at_two_places_is_divergent() -> None:
    outcome = launch(ROLES.replace("BARRIER", "__syncthreads();"), 1, 64, np.zeros(64, np.int32))
    (event,) = outcome.events
    assert event.rule == "sync/barrier-divergence"
    assert "32 at another barrier" in event.message
