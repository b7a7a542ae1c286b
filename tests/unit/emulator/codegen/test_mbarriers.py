"""``mbarrier`` objects: phases, parities, transactions, waits."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, ptx_kernel, result, rules

_HEAD = """
typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(u64* b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n) : "memory"); }
__device__ void inval(u64* b) { asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at(b)) : "memory"); }
__device__ u64 arrive(u64* b) { u64 s; asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(at(b)) : "memory"); return s; }
__device__ u64 arrive(u64* b, int n) { u64 s; asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], %2;" : "=l"(s) : "r"(at(b)), "r"(n) : "memory"); return s; }
__device__ u64 drop(u64* b) { u64 s; asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(s) : "r"(at(b)) : "memory"); return s; }
__device__ bool test(u64* b, u64 s) { int p; asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}" : "=r"(p) : "r"(at(b)), "l"(s) : "memory"); return p; }
__device__ bool parity(u64* b, int q) { int p; asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}" : "=r"(p) : "r"(at(b)), "r"(q) : "memory"); return p; }
__device__ int pending(u64 s) { int n; asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(s)); return n; }
__device__ void copy4(void* d, const void* s) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(d)), "l"(s)); }
"""


def run(body: str, *arguments, block: int = 64, arch: str = "80", **more):
    source = f'{_HEAD}\nextern "C" __global__ void k(const int* x, int* y, int n) {{ {body} }}'
    return launch(source, 1, block, *arguments, **more)


X = np.arange(1, 257, dtype=np.int32)


def y(count: int) -> dict:
    return out(np.zeros(count, np.int32))


def test_phases_of_a_single_thread() -> None:
    body = """__shared__ u64 b; init(&b, 3);
    u64 s = arrive(&b); y[0] = pending(s); y[1] = test(&b, s); y[2] = parity(&b, 0); y[3] = parity(&b, 1);
    s = arrive(&b, 1); y[4] = pending(s); y[5] = test(&b, s);
    s = arrive(&b); y[6] = pending(s); y[7] = test(&b, s); y[8] = parity(&b, 0); y[9] = parity(&b, 1);
    u64 next = arrive(&b); y[10] = pending(next); y[11] = test(&b, next); y[12] = test(&b, s);"""
    outcome = run(body, X, y(13), np.int32(0), block=1)
    assert not outcome.events
    #                                                arrivals 3, 2, 1 are missing; the third ends the phase
    assert list(result(outcome, 1, np.int32)) == [3, 0, 0, 1, 2, 0, 1, 1, 1, 0, 3, 0, 1]


def test_arrive_drop_lowers_the_expected_count() -> None:
    body = """__shared__ u64 b; init(&b, 2);
    drop(&b); u64 s = arrive(&b); y[0] = test(&b, s); s = arrive(&b); y[1] = pending(s); y[2] = test(&b, s);"""
    assert list(result(run(body, X, y(3), np.int32(0), block=1), 1, np.int32)) == [1, 1, 1]


def test_pending_transactions_delay_the_phase() -> None:
    ptx = ptx_kernel(
        "q",
        """\
.reg .b64 %out, %s; .reg .b32 %b, %v; .reg .pred %p;
.shared .align 8 .b64 bar;
ld.param.u64 %out, [q]; mov.u32 %b, bar;
mbarrier.init.shared.b64 [%b], 1;
mbarrier.arrive.expect_tx.shared.b64 %s, [%b], 24;
mbarrier.try_wait.shared.b64 %p, [%b], %s, 100; selp.b32 %v, 1, 0, %p; st.global.b32 [%out], %v;
mbarrier.complete_tx.relaxed.cta.shared.b64 [%b], 8;
mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; selp.b32 %v, 1, 0, %p; st.global.b32 [%out+4], %v;
mbarrier.complete_tx.relaxed.cta.shared.b64 [%b], 16;
mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; selp.b32 %v, 1, 0, %p; st.global.b32 [%out+8], %v;
mbarrier.expect_tx.relaxed.cta.shared.b64 [%b], 4;
mbarrier.complete_tx.relaxed.cta.shared.b64 [%b], 4;
mbarrier.test_wait.parity.shared.b64 %p, [%b], 1; selp.b32 %v, 1, 0, %p; st.global.b32 [%out+12], %v;
ret;""",
    )
    outcome = launch(ptx, 1, 1, y(4))
    assert not outcome.events
    assert list(result(outcome, 0, np.int32)) == [0, 0, 1, 0]


def test_warps_wait_for_each_other() -> None:
    body = """__shared__ u64 b; __shared__ int s[64]; int t = threadIdx.x;
    if (t == 0) init(&b, 64);
    __syncthreads();
    for (int k = 0; k < 4; ++k) {
        s[t] = x[t] + k;
        u64 state = arrive(&b);
        while (!test(&b, state)) {}
        y[64 * k + t] = s[63 - t];
        arrive(&b);
        while (!parity(&b, 1)) {}
    }"""
    outcome = run(body, X[:64], y(256), np.int32(0))
    assert not outcome.events
    expected = np.concatenate([X[63::-1][:64] + k for k in range(4)])
    assert np.array_equal(result(outcome, 1, np.int32), expected)


def test_a_wait_for_a_missing_arrival_hangs() -> None:
    body = """__shared__ u64 b; int t = threadIdx.x;
    if (t == 0) init(&b, 65);
    __syncthreads();
    u64 s = arrive(&b);
    while (!test(&b, s)) {}
    y[t] = 1;"""
    outcome = run(body, X[:64], y(64), np.int32(0), max_seconds=1.0)
    assert outcome.status == "hung"


@pytest.mark.parametrize("noinc", ["", ".noinc"])
def test_copies_arrive_at_a_barrier(noinc: str) -> None:
    arrival = f'asm volatile("cp.async.mbarrier.arrive{noinc}.shared.b64 [%0];" :: "r"(at(&b)) : "memory");'
    own = "" if noinc else "arrive(&b);"
    body = f"""__shared__ u64 b; __shared__ int s[64]; int t = threadIdx.x;
    if (t == 0) init(&b, 64);
    __syncthreads();
    copy4(s + t, x + t);
    {arrival} {own}
    while (!parity(&b, 0)) {{}}
    y[t] = s[63 - t];"""
    outcome = run(body, X[:64], y(64), np.int32(0))
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, np.int32), X[63::-1][:64])


def test_an_uninitialised_object_is_found() -> None:
    outcome = run("__shared__ u64 b; arrive(&b); y[0] = 1;", X, y(1), np.int32(0), block=1)
    assert rules(outcome) == ["memory/uninitialized-read"]
    assert "never initialised" in outcome.events[0].message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("init(&b, 1); inval(&b); arrive(&b);", "`mbarrier.arrive` on an mbarrier after its `mbarrier.inval`"),
        ("init(&b, 2); arrive(&b); init(&b, 2);", "this initialises an mbarrier that is in use"),
        ("init(&b, 1); init(&b, 1);", "this initialises an mbarrier again, which is undefined"),
        ("init(&b, 1); arrive(&b, 2);", "this arrives 2 times, but the phase waits for 1 of 1 arrivals only"),
    ],
)
def test_misuse_of_an_object_is_found(body: str, message: str) -> None:
    outcome = run(f"__shared__ u64 b; {body} y[0] = 1;", X, y(1), np.int32(0), block=1)
    assert rules(outcome) == ["sync/mbarrier"]
    assert message in outcome.events[0].message


def test_an_object_may_be_initialised_again_after_inval() -> None:
    body = "__shared__ u64 b; init(&b, 1); arrive(&b); inval(&b); init(&b, 2); arrive(&b); y[0] = 1;"
    assert not run(body, X, y(1), np.int32(0), block=1).events


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("if (t % 16 == 0) init(&b, 64); __syncthreads(); arrive(&b); while (!parity(&b, 0));", []),
        ("if (t % 16 == 0) init(&b, t < 32 ? 64 : 65); __syncthreads();", ["memory/shared-race", "sync/mbarrier"]),
        ("if (t % 16 == 0) init(&b, 64); arrive(&b);", ["memory/shared-race", "sync/mbarrier"]),
        ("for (int i = 0; i < n + 2; i++) if (t == 0) init(&b, 64); __syncthreads();", ["sync/mbarrier"]),
    ],
)
def test_several_threads_may_initialise_an_object_alike(code: str, found: list[str]) -> None:
    """As all with `threadIdx.x == 0` of a two-dimensional block do."""
    outcome = run(f"__shared__ u64 b; int t = threadIdx.x; {code} y[t] = 1;", X, y(64), np.int32(0), block=64)
    assert set(rules(outcome)) == set(found), outcome.events


@pytest.mark.parametrize(
    ("waits", "races"), [("if (!parity(a, 0)) __trap();", True), ("while (!parity(a, 0) || !parity(a + 1, 0));", False)]
)
def test_a_reader_that_the_writer_does_not_wait_for_is_found_among_several(waits: str, races: bool) -> None:
    """Each warp but the last reads the same cells, and has an object of its own."""
    body = f"""__shared__ u64 a[2]; __shared__ volatile int s[32]; int t = threadIdx.x, lane = t % 32;
    if (t == 0) {{ init(a, 32); init(a + 1, 32); }} if (t < 32) s[t] = t;
    __syncthreads();
    if (t < 64) {{ int v = s[lane]; arrive(a + t / 32); y[t] = v; }} else {{ {waits} s[lane] = -t; }}"""
    outcome = run(body, X, y(64), np.int32(0), block=96)
    assert rules(outcome) == (["memory/shared-race"] if races else []), outcome.events


def test_an_object_must_be_aligned() -> None:
    outcome = run(
        "__shared__ __align__(8) char b[16]; init((u64*)(b + 4), 1); y[0] = 1;", X, y(1), np.int32(0), block=1
    )
    assert rules(outcome) == ["memory/misaligned"]
