"""Events of each checker: rule, line, thread, buffer and offset; faulty accesses are contained."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import Checks, launch, out, rules

from gpuemu_lsp.engine.cause import Cause

I = np.int32  # noqa: E741


def F(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


CASES = [
    # (name, source, grid, block, arguments, rule, line, buffer, status)
    (
        "global overrun",
        """extern "C" __global__ void k(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = 1;
}""",
        1, 64, (F(40), I(40)), "memory/out-of-bounds", 3, "a0", "trapped",
    ),
    (
        "index -1",
        """extern "C" __global__ void k(const float* x, float* y) {
  int i = threadIdx.x;
  y[i] = x[i - 1];
}""",
        1, 32, (F(32), F(32)), "memory/out-of-bounds", 3, "a0", "trapped",
    ),
    (
        "gather out of range",
        """extern "C" __global__ void k(const int* x, float* y) {
  y[x[threadIdx.x]] = 1;
}""",
        1, 32, (np.arange(32, dtype=I) * 3, F(64)), "memory/out-of-bounds", 2, "a1", "trapped",
    ),
    (
        "null",
        """extern "C" __global__ void k(float* y, long p) {
  ((float*)p)[threadIdx.x] = 1;
}""",
        1, 32, (F(32), np.int64(0)), "memory/null-pointer", 2, None, "trapped",
    ),
    (
        "misaligned vector",
        """extern "C" __global__ void k(const float* x, float4* y) {
  y[threadIdx.x] = *(const float4*)(x + 1 + 4 * threadIdx.x);
}""",
        1, 32, (F(256), F(128)), "memory/misaligned", 2, "a0", "trapped",
    ),
    (
        "uninitialised output read",
        """extern "C" __global__ void k(float* y) {
  y[threadIdx.x] += 1;
}""",
        1, 32, (out(F(32)),), "memory/uninitialized-read", 2, "a0", "completed",
    ),
    (
        "shared never written",
        """extern "C" __global__ void k(float* y) {
  __shared__ float s[64];
  if (threadIdx.x < 20) s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}""",
        1, 32, (F(32),), "memory/uninitialized-read", 5, "s", "completed",
    ),
    (
        "shared overrun into a neighbour",
        """extern "C" __global__ void k(float* y) {
  __shared__ float s[32]; __shared__ float u[32];
  u[threadIdx.x] = 2; s[0] = 0;
  s[threadIdx.x + 1] = 1;
  __syncthreads();
  y[threadIdx.x] = s[31 - threadIdx.x] + u[threadIdx.x ^ 1];
}""",
        1, 32, (F(32),), "memory/out-of-bounds", 4, "s", "trapped",
    ),
    (
        "local array overrun",
        """extern "C" __global__ void k(float* y, int n) {
  float t[8];
  for (int i = 0; i < 8; i++) t[i] = y[i];
  y[threadIdx.x] = t[(threadIdx.x * 7 + n) & 15];
}""",
        1, 32, (F(32), I(1)), "memory/out-of-bounds", 4, "local memory", "trapped",
    ),
    (
        "barrier under a condition, others leave",
        """extern "C" __global__ void k(float* y) {
  if (threadIdx.x < 16) {
    __syncthreads();
  }
  y[threadIdx.x] = 1;
}""",
        1, 64, (F(64),), "sync/barrier-divergence", 3, None, "completed",
    ),
    (
        "early return before a barrier",
        """extern "C" __global__ void k(float* y, int n) {
  __shared__ float s[64];
  if (threadIdx.x >= n) return;
  s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[0];
}""",
        1, 64, (F(64), I(50)), "sync/barrier-divergence", 5, None, "completed",
    ),
    (
        "different barriers",
        """extern "C" __global__ void k(float* y) {
  if (threadIdx.x & 32) asm volatile("bar.sync 1;"); else asm volatile("bar.sync 2, 64;");
  y[threadIdx.x] = 1;
}""",
        1, 64, (F(64),), "sync/deadlock", 2, None, "hung",
    ),
    (
        "endless loop",
        """extern "C" __global__ void k(volatile int* y) {
  while (y[0] == 0)
    ;
  y[1] = 1;
}""",
        1, 64, (np.zeros(2, I),), "sync/hang", 2, None, "hung",
    ),
    (
        "endless loop with a barrier",
        """extern "C" __global__ void k(int* y) {
  for (;;)
    __syncthreads();
}""",
        1, 64, (np.zeros(2, I),), "sync/hang", 3, None, "hung",
    ),
    (
        "endless loop with a barrier for a warp",
        """extern "C" __global__ void k(int* y) {
#pragma unroll 1
  for (int i = 0; i < 100000000; i++)
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 32;"); else asm volatile("bar.sync 2, 32;");
}""",
        1, 64, (np.zeros(2, I),), "sync/hang", 3, None, "hung",
    ),
    (
        "lane not in its mask",
        """extern "C" __global__ void k(int* y) {
  y[threadIdx.x] = __shfl_xor_sync(0xffff, threadIdx.x, 1);
}""",
        1, 32, (np.zeros(32, I),), "sync/missing-warp-mask", 2, None, "completed",
    ),
    (
        "shuffle from lanes that never come",
        """extern "C" __global__ void k(int* y, int n) {
  int v = y[threadIdx.x];
  if (threadIdx.x < n) v += __shfl_down_sync(0xffffffff, v, 16);
  y[threadIdx.x] = v;
}""",
        1, 32, (np.zeros(32, I), I(8)), "sync/missing-warp-mask", 3, None, "completed",
    ),
    (
        "trap",
        """extern "C" __global__ void k(int* y) {
  if (threadIdx.x == 5)
    __trap();
  y[threadIdx.x] = 1;
}""",
        1, 32, (np.zeros(32, I),), "sync/trap", 3, None, "trapped",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_the_event_has_rule_line_and_buffer(case: tuple) -> None:
    _, source, grid, block, arguments, rule, line, buffer, status = case
    outcome = launch(source, grid, block, *arguments, max_steps=300)
    assert rules(outcome) == [rule], outcome.events
    event = outcome.events[0]
    assert event.location is not None
    assert event.location.line == line
    assert event.buffer is None or buffer in event.buffer
    assert (event.buffer is None) == (buffer is None)
    assert outcome.status == status
    assert event.thread is not None and event.block is not None


def test_blocks_that_wait_for_another_block_at_barriers_make_progress() -> None:
    source = """extern "C" __global__ void k(volatile int* flag) {
  if (blockIdx.x == 1) flag[0] = 1;
  while (flag[0] == 0) __syncthreads();
  flag[1 + blockIdx.x] = 1;
}"""
    outcome = launch(source, 2, 32, np.zeros(3, np.int32))
    assert outcome.status == "completed"


def test_a_chain_of_blocks_is_slow_when_it_is_stopped_and_does_not_only_wait() -> None:
    # Each block waits for the next one: in a round over all of them one ends, and it takes seconds as a whole.
    source = """extern "C" __global__ void k(volatile int* done) {
  if (blockIdx.x + 1 < gridDim.x) while (done[blockIdx.x + 1] == 0);
  done[blockIdx.x] = 1;
}"""
    outcome = launch(source, 256, 32, np.zeros(256, np.int32), max_seconds=0.1)
    assert [event.cause for event in outcome.events] == [Cause.TIME_LIMIT]


def test_event_names_thread_offset_and_count() -> None:
    source = CASES[0][1]
    event = launch(source, 2, 32, F(40), I(45)).events[0]
    assert (event.thread, event.block, event.offset, event.size, event.count) == ((8, 0, 0), (1, 0, 0), 160, 4, 6)


def test_faults_are_contained() -> None:
    outcome = launch(CASES[0][1], 1, 64, F(40), I(60))
    assert (outcome.buffers["a0"].view(np.float32) == 1).all()


@pytest.mark.parametrize(
    ("checks", "index"),
    [
        (Checks(bounds=False), 0),
        (Checks(uninitialized=False), 5),
        (Checks(uninitialized=False), 6),
        (Checks(sync=False), 9),
    ],
)
def test_checks_can_be_switched_off(checks: Checks, index: int) -> None:
    _, source, grid, block, arguments, *_ = CASES[index]
    outcome = launch(source, grid, block, *arguments, checks=checks)
    assert outcome.events == ()
    assert outcome.status == "completed"


def test_watch_names_the_last_writer() -> None:
    from gpuemu_lsp.engine.execution import Watch

    source = """extern "C" __global__ void k(float* y) {
  y[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 7)
    y[3] = 2;
}"""
    outcome = launch(source, 1, 32, F(32), watch=Watch("a0", 12, 4))
    assert outcome.watched is not None and outcome.watched.location is not None
    assert (outcome.watched.location.line, outcome.watched.thread) == (5, (7, 0, 0))
    outcome = launch(source, 1, 32, F(32), watch=Watch("a0", 16, 4))
    assert outcome.watched is not None and outcome.watched.location is not None
    assert (outcome.watched.location.line, outcome.watched.thread) == (2, (4, 0, 0))


def test_written_mask_and_unwritten_bytes() -> None:
    source = """extern "C" __global__ void k(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1; }"""
    outcome = launch(source, 1, 32, out(F(32)), I(20))
    assert outcome.written is not None
    assert outcome.written["a0"].tolist() == [True] * 80 + [False] * 48


def test_an_exchange_initialises():
    """An exchange does not depend on the old value: kernels initialise flags in shared memory by it."""
    source = """extern "C" __global__ void k(int* y) {
  __shared__ int hits;
  atomicExch(&hits, 0);
  __syncthreads();
  atomicAdd(&hits, 1);
  __syncthreads();
  if (threadIdx.x == 0) y[0] = hits;
}"""
    outcome = launch(source, 1, 32, out(np.zeros(1, I)))
    assert rules(outcome) == []
    assert outcome.status == "completed"


def test_copying_a_partly_initialised_object_is_not_reported() -> None:
    source = """extern "C" __global__ void k(const int* x, int* y) {
  const int i = threadIdx.x;
  struct Pair { int set[2]; int unset[2]; } mine, copy;
  mine.set[0] = mine.set[1] = 3;
  copy = mine;
  y[i] = x[i] + copy.set[i & 1];
  y[i] += mine.WHICH[i & 1];
}"""
    for which, lines in (("set", []), ("unset", [7])):
        outcome = launch(source.replace("WHICH", which), 1, 32, np.zeros(32, I), np.zeros(32, I), options=("-G",))
        assert [event.location.line for event in outcome.events if event.location is not None] == lines
        assert rules(outcome) == ["memory/uninitialized-read"] * len(lines)


FAR = """extern "C" __global__ void k(const unsigned* x, unsigned* y, int step, int steps) {
  __shared__ unsigned part[32];
  unsigned sum = 0;
  for (int i = 0; i < steps; ++i) sum += x[(long)i * step];
  if (sum == 1) part[threadIdx.x] = sum;
  y[threadIdx.x] = sum + part[threadIdx.x % 7];
}"""


def test_a_read_far_outside_of_a_buffer_is_none_of_an_uninitialised_array() -> None:
    """Shared memory is not in the global address space, wherever the emulator has it."""
    outcome = launch(FAR, 1, 32, np.ones(8, np.uint32), out(np.zeros(32, np.uint32)), I(16), I(20000))
    read = {event.rule for event in outcome.events if event.location is not None and event.location.line == 4}
    assert read == {"memory/out-of-bounds"}, [event.message for event in outcome.events]


def test_an_event_has_the_end_of_the_furthest_access() -> None:
    source = """extern "C" __global__ void k(float* x, float* y) {
#pragma unroll 1
  for (int i = threadIdx.x; i < 640; i += 64) x[i * 2] = 1;
  y[threadIdx.x == 5 ? 1 << 28 : threadIdx.x + 32] = 1;
}"""
    outcome = launch(source, 1, 64, F(8), F(32), guard_bytes=1 << 16)
    first, second = outcome.events
    assert (first.buffer, first.furthest) == ("a0", 2 * 639 * 4 + 4)
    # The furthest access is nowhere near the buffer of the first one.
    assert (second.buffer, second.furthest) == ("a1", None)
