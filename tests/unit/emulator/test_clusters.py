"""Clusters of several blocks: indices, shared memory of other blocks, barriers, and what is reported of them."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, ptx_kernel, result, rules
from support.hopper_kernels import compiled

HELPERS = r"""
__device__ __forceinline__ unsigned shared(const void* p) { return __cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned sreg_rank() {
  unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r;
}
__device__ __forceinline__ void sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ unsigned mapa(unsigned a, unsigned rank) {
  unsigned r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r;
}
__device__ __forceinline__ int load(unsigned a) {
  int v; asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(a) : "memory"); return v;
}
__device__ __forceinline__ void store(unsigned a, int v) {
  asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(a), "r"(v) : "memory");
}
__device__ __forceinline__ void init(unsigned long long* bar, int n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared(bar)), "r"(n) : "memory");
}
__device__ __forceinline__ void expect(unsigned long long* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(shared(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(unsigned remote) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote) : "memory");
}
__device__ __forceinline__ void wait(unsigned long long* bar, int parity) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra again; }" :: "r"(shared(bar)), "r"(parity) : "memory");
}
#define KERNEL extern "C" __global__ void
"""


def run(source, grid, block, *arguments, **more):
    return launch(compiled(HELPERS + source), grid, block, *arguments, **more)


EXCHANGE = r"""
KERNEL __cluster_dims__(2) k(const int* x, int* y) {
  __shared__ int s[64];
  s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  /*before*/ sync();
  int v = load(mapa(shared(&s[63 - threadIdx.x]), sreg_rank() ^ 1));
  /*after*/ sync();
  y[blockIdx.x * 64 + threadIdx.x] = v;
}
"""


def exchanged(outcome, x):
    return np.array_equal(result(outcome, 1, np.int32), x.reshape(-1, 2, 64)[:, ::-1, ::-1].reshape(-1))


@pytest.mark.parametrize("descending", [False, True])
def test_memory_of_the_other_block(descending):
    x = np.arange(384, dtype=np.int32)
    outcome = run(EXCHANGE, 6, 64, x, out(np.zeros_like(x)), descending=descending)
    assert not outcome.events and exchanged(outcome, x)


def test_indices():
    # By hand: grid (4, 4), clusters of (2, 2); the rank counts x first.
    body = """
    .reg .b32 %r<12>; .reg .b64 %rd<4>; .reg .pred %p;
    ld.param.u64 %rd1, [y];
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mad.lo.u32 %r2, %r1, 4, %r0;
    mul.wide.u32 %rd2, %r2, 32; add.u64 %rd1, %rd1, %rd2;
    mov.u32 %r3, %cluster_ctaid.x; mov.u32 %r4, %cluster_ctaid.y;
    mov.u32 %r5, %clusterid.x; mov.u32 %r6, %clusterid.y;
    mov.u32 %r7, %cluster_ctarank; mov.u32 %r8, %cluster_nctarank; mov.u32 %r9, %nclusterid.x;
    mov.pred %p, %is_explicit_cluster; selp.u32 %r10, 1, 0, %p;
    st.global.v4.u32 [%rd1], {%r3, %r4, %r5, %r6}; st.global.v4.u32 [%rd1+16], {%r7, %r8, %r9, %r10};
    """
    for directive, more in ((".reqnctapercluster 2, 2, 1", {}), ("", {"cluster": (2, 2, 1)})):
        outcome = launch(ptx_kernel("y", body, directive), (4, 4), 1, out(np.zeros(128, np.int32)), **more)
        found = result(outcome, 0, np.int32).reshape(4, 4, 8)
        for y in range(4):
            for x in range(4):
                assert found[y, x].tolist() == [x % 2, y % 2, x // 2, y // 2, x % 2 + y % 2 * 2, 4, 2, 1]


@pytest.mark.parametrize(
    ("grid", "cluster", "text"),
    [
        (3, (2, 1, 1), "does not consist of clusters"),
        (34, (17, 1, 1), "larger than a GPU allows"),
        (4, (4, 1, 1), "requires 2"),
    ],
)
def test_launches_that_cuda_refuses(grid, cluster, text):
    source = EXCHANGE if text == "requires 2" else EXCHANGE.replace("__cluster_dims__(2)", "")
    outcome = run(source, grid, 64, np.zeros(256, np.int32), np.zeros(256, np.int32), cluster=cluster)
    assert rules(outcome) == ["engine/not-executed"] and text in outcome.events[0].message


@pytest.mark.parametrize(
    ("removed", "rule", "text"),
    [
        ("/*before*/ sync();", "memory/shared-race", "of block 0 writes it without synchronization"),
        ("/*after*/ sync();", "memory/out-of-bounds", "of another block of the cluster, which has exited"),
    ],
)
def test_a_barrier_is_missing(removed, rule, text):
    outcome = run(
        EXCHANGE.replace(removed, "__syncthreads();"), 4, 64, np.zeros(256, np.int32), np.zeros(256, np.int32)
    )
    assert any(event.rule == rule and text in event.message for event in outcome.events), outcome.events


def test_barrier_orders_global_memory_and_has_two_halves():
    source = r"""
    KERNEL __cluster_dims__(4) k(int* x, int* y) {
      x[blockIdx.x * 32 + threadIdx.x] = blockIdx.x;
      asm volatile("barrier.cluster.arrive.release;" ::: "memory");
      int own = threadIdx.x;
      asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
      y[blockIdx.x * 32 + threadIdx.x] = x[(blockIdx.x ^ 3) * 32 + threadIdx.x] + own;
    }"""
    outcome = run(source, 8, 32, out(np.zeros(256, np.int32)), out(np.zeros(256, np.int32)))
    assert not outcome.events
    wanted = (np.arange(8) ^ 3)[:, None] + np.arange(32)
    assert np.array_equal(result(outcome, 1, np.int32).reshape(8, 32), wanted)
    late = source.replace('asm volatile("barrier.cluster.wait.acquire;" ::: "memory");', "", 1)
    assert "memory/global-race" in rules(run(late, 8, 32, out(np.zeros(256, np.int32)), out(np.zeros(256, np.int32))))


def test_a_block_that_does_not_come_to_the_barrier():
    source = r"""
    KERNEL __cluster_dims__(2) k(int* y) {
      __shared__ unsigned long long bar;
      if (threadIdx.x == 0) init(&bar, 1);
      __syncthreads();
      if (sreg_rank() == 0) { sync(); y[threadIdx.x] = 1; }
      else { asm volatile("bar.sync 1, 64;"); sync(); }
    }"""
    outcome = run(source, 2, 32, out(np.zeros(32, np.int32)))
    messages = {event.message for event in outcome.events if event.rule == "sync/deadlock"}
    assert outcome.status == "hung"
    assert any("at the barrier of the cluster; 32 of 64 threads have arrived" in one for one in messages), messages
    assert any("at barrier 1" in one for one in messages)


REMOTE = r"""
KERNEL __cluster_dims__(2) k(const int* x, int* y) {
  __shared__ int s[32];
  __shared__ unsigned long long bar;
  if (threadIdx.x == 0) init(&bar, 32);
  sync();
  unsigned other = sreg_rank() ^ 1;
  store(mapa(shared(&s[threadIdx.x]), other), x[blockIdx.x * 32 + threadIdx.x]);
  arrive(mapa(shared(&bar), other));
  wait(&bar, 0);
  y[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
  sync();
}
"""


def test_remote_arrivals_order_remote_stores():
    x = np.arange(128, dtype=np.int32)
    outcome = run(REMOTE, 4, 32, x, out(np.zeros_like(x)))
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, np.int32), x.reshape(2, 2, 32)[:, ::-1].reshape(-1))
    # An arrival before the store does not order it.
    lines = REMOTE.splitlines()
    first, second = (next(i for i, line in enumerate(lines) if text in line) for text in ("  store(", "  arrive("))
    lines[first], lines[second] = lines[second], lines[first]
    assert "memory/shared-race" in rules(run("\n".join(lines), 4, 32, x, out(np.zeros_like(x))))


def test_a_remote_arrival_too_few_names_the_blocks():
    outcome = run(
        REMOTE.replace("init(&bar, 32)", "init(&bar, 33)"),
        2,
        32,
        np.zeros(64, np.int32),
        np.zeros(64, np.int32),
        max_seconds=1.0,
    )
    assert outcome.status == "hung"
    assert any("32 of 33 arrivals came (of threads 0 of block 1, 1 of block 1" in e.message for e in outcome.events)


@pytest.mark.parametrize(("grid", "expected"), [(4, []), (256, ["sync/exited-block"])])
def test_arrival_at_a_block_that_has_exited(grid, expected):
    source = r"""
    KERNEL __cluster_dims__(2) k(int* y) {
      __shared__ unsigned long long bar;
      if (threadIdx.x == 0) init(&bar, 1);
      sync();
      y[blockIdx.x * 32 + threadIdx.x] = 1;
      if (threadIdx.x == 0) arrive(mapa(shared(&bar), sreg_rank() ^ 1));
    }"""
    outcome = run(source, grid, 32, out(np.zeros(grid * 32, np.int32)))
    assert outcome.status == "completed" and rules(outcome) == expected


def test_asynchronous_stores_and_copies_between_blocks():
    source = r"""
    KERNEL __cluster_dims__(2) k(const int* x, int* y) {
      __shared__ alignas(16) int from[64], to[64], sum[4];
      __shared__ unsigned long long bar;
      unsigned other = sreg_rank() ^ 1;
      from[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
      from[threadIdx.x + 32] = x[blockIdx.x * 64 + threadIdx.x + 32];
      if (threadIdx.x < 4) sum[threadIdx.x] = 100 * threadIdx.x;
      if (threadIdx.x == 0) { init(&bar, 1); expect(&bar, 128 + 32 * 4 + 32 * 4); }
      asm volatile("fence.proxy.async;" ::: "memory");
      sync();
      unsigned there = mapa(shared(&bar), other);
      if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
          :: "r"(mapa(shared(to), other)), "r"(shared(from)), "r"(there) : "memory");
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
        :: "r"(mapa(shared(&to[32 + threadIdx.x]), other)), "r"(from[32 + threadIdx.x]), "r"(there) : "memory");
      asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
        :: "r"(mapa(shared(&sum[threadIdx.x % 4]), other)), "r"(threadIdx.x), "r"(there) : "memory");
      wait(&bar, 0);
      y[blockIdx.x * 68 + threadIdx.x] = to[threadIdx.x];
      y[blockIdx.x * 68 + 32 + threadIdx.x] = to[32 + threadIdx.x];
      if (threadIdx.x < 4) y[blockIdx.x * 68 + 64 + threadIdx.x] = sum[threadIdx.x];
      sync();
    }"""
    x = np.arange(128, dtype=np.int32)
    outcome = run(source, 2, 32, x, out(np.zeros(136, np.int32)))
    assert not outcome.events, outcome.events
    found = result(outcome, 1, np.int32).reshape(2, 68)
    assert np.array_equal(found[:, :64], x.reshape(2, 64)[::-1])
    sums = [100 * lane + sum(range(lane, 32, 4)) for lane in range(4)]
    assert found[:, 64:].tolist() == [sums, sums]
    early = source.replace("      wait(&bar, 0);", "", 1)
    assert "memory/uninitialized-read" in rules(run(early, 2, 32, x, out(np.zeros(136, np.int32))))


def test_generic_addresses_and_ranks():
    source = r"""
    KERNEL __cluster_dims__(2) k(int* y) {
      __shared__ int s[32];
      unsigned rank; unsigned long long other; int inside, own; unsigned there;
      s[threadIdx.x] = 10 * blockIdx.x + threadIdx.x;
      sync();
      asm volatile("mapa.u64 %0, %1, %2;" : "=l"(other) : "l"(&s[threadIdx.x]), "r"(sreg_rank() ^ 1));
      asm volatile("getctarank.u64 %0, %1;" : "=r"(rank) : "l"(other));
      asm volatile("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.s32 %0, 1, 0, p; }" : "=r"(inside) : "l"(other));
      asm volatile("{ .reg .pred p; isspacep.shared::cta p, %1; selp.s32 %0, 1, 0, p; }" : "=r"(own) : "l"(other));
      asm volatile("{ .reg .b64 t; cvta.to.shared::cluster.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(there) : "l"(other));
      atomicAdd((int*)other, 1000);
      sync();
      y[blockIdx.x * 32 + threadIdx.x] = load(there) + 10000 * rank + 100000 * inside + 1000000 * own;
      sync();
    }"""
    found = result(run(source, 2, 32, out(np.zeros(64, np.int32))), 0, np.int32).reshape(2, 32)
    for block in range(2):
        other = block ^ 1
        assert found[block].tolist() == [10 * other + t + 1000 + 10000 * other + 100000 for t in range(32)]


READERS = r"""
KERNEL __cluster_dims__(2) k(const int* x, int* y) {
  __shared__ int s[32]; __shared__ unsigned long long bars[2];
  int t = threadIdx.x, warp = t / 32, lane = t % 32;
  if (t == 64) { init(&bars[0], 32); init(&bars[1], 32); }
  if (t < 32) s[t] = x[blockIdx.x * 32 + t];
  sync();
  if (warp < 2) {
    y[(blockIdx.x * 2 + warp) * 32 + lane] = s[lane];
    arrive(mapa(shared(&bars[warp]), sreg_rank()));
  } else {
    wait(&bars[0], 0);
    wait(&bars[1], 0);
    s[lane] = 0;
  }
  sync();
}
"""


@pytest.mark.parametrize("left_out", ["", "    wait(&bars[0], 0);\n", "    wait(&bars[1], 0);\n"])
def test_a_writer_waits_for_both_of_two_readers(left_out):
    x = np.arange(128, dtype=np.int32)
    outcome = run(READERS.replace(left_out, ""), 4, 96, x, out(np.zeros(256, np.int32)))
    assert rules(outcome) == (["memory/shared-race"] if left_out else [])


STORED = r"""
KERNEL __cluster_dims__(2) k(int* y) {
  __shared__ alignas(128) int s[32];
  s[threadIdx.x] = threadIdx.x;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;" :: "l"(y + blockIdx.x * 32), "r"(shared(s)) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncthreads();
  ((volatile int*)s)[threadIdx.x] = 0;
}
"""


@pytest.mark.parametrize("waits", [True, False])
def test_the_last_store_of_a_block_is_checked_before_it_exits(waits):
    source = (
        STORED if waits else STORED.replace('    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");\n', "")
    )
    outcome = run(source, 4, 32, out(np.zeros(128, np.int32)))
    assert rules(outcome) == ([] if waits else ["sync/async-order"])


def test_blocks_that_only_wait_do_not_merely_run_long():
    source = r"""
    KERNEL __cluster_dims__(2) k(int* y) {
      __shared__ int flag;
      if (threadIdx.x == 0) flag = 0;
      sync();
      if (sreg_rank()) while (load(mapa(shared(&flag), 0)) == 0);
      sync();
      y[blockIdx.x] = 1;
    }"""
    outcome = run(source, 2, 32, np.zeros(2, np.int32), max_seconds=1.0)
    assert outcome.status == "hung" and any(
        e.message == "this loop does not terminate: the time limit was reached" for e in outcome.events
    ), outcome.events
