"""``cp.async``: delivery, visibility, and the checks of both addresses."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, result, rules

_HEAD = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy16(void* d, const void* s, int n) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at(d)), "l"(s), "r"(n));
}
__device__ void copy4(void* d, const void* s) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(d)), "l"(s));
}
__device__ void commit() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
"""


def run(body: str, *arguments, block: int = 32, parameters: str = "const float* x, float* y, int n", **more):
    return launch(f'{_HEAD}\nextern "C" __global__ void k({parameters}) {{ {body} }}', 1, block, *arguments, **more)


X = np.arange(1, 2049, dtype=np.float32)


def y(count: int) -> dict:
    return out(np.zeros(count, np.float32))


def test_bytes_arrive_with_the_wait() -> None:
    body = """__shared__ __align__(16) float s[128]; int t = threadIdx.x;
    copy16(s + 4 * t, x + 4 * t, 16); commit(); wait<0>();
    for (int i = 0; i < 4; ++i) y[4 * t + i] = s[4 * t + i];"""
    outcome = run(body, X[:128], y(128), np.int32(0))
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, np.float32), X[:128])


@pytest.mark.parametrize("wait", ["commit();", "commit(); wait<1>();", "commit(); commit(); wait<2>();", ""])
def test_a_read_before_the_wait_is_found(wait: str) -> None:
    body = f"__shared__ float s[32]; int t = threadIdx.x; copy4(s + t, x + t); {wait} y[t] = s[t];"
    outcome = run(body, X[:32], y(32), np.int32(0))
    assert rules(outcome) == ["memory/uninitialized-read"]
    assert "asynchronous copy" in outcome.events[0].message
    assert not np.isin(outcome.buffers["a1"].view(np.float32), X[:32]).any()


@pytest.mark.parametrize("wait", ["commit(); wait<0>();", "commit(); commit(); wait<1>();", "wait_all();"])
def test_a_sufficient_wait_is_clean(wait: str) -> None:
    body = f"__shared__ float s[32]; int t = threadIdx.x; copy4(s + t, x + t); {wait} y[t] = s[t];"
    outcome = run(body, X[:32], y(32), np.int32(0))
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, np.float32), X[:32])


def test_a_copy_becomes_visible_by_the_wait_of_its_own_thread() -> None:
    body = """__shared__ float s[64]; int t = threadIdx.x;
    if (t < 32) copy4(s + t, x + t); else s[t] = 0;
    if (t >= 32) wait_all();
    __syncthreads();
    y[t] = s[63 - t];"""
    outcome = run(body, X[:64], y(64), np.int32(0), block=64)
    assert rules(outcome) == ["memory/uninitialized-read"]
    assert outcome.events[0].thread[0] >= 32
    assert not run(body.replace("if (t >= 32)", ""), X[:64], y(64), np.int32(0), block=64).events


def test_lanes_with_different_numbers_of_groups() -> None:
    """Groups are per thread: here odd lanes have committed one more after the copy that is waited for."""
    body = """__shared__ float s[64]; int t = threadIdx.x;
    copy4(s + t, x + t); commit();
    if (t % 2) { copy4(s + 32 + t, x + 32 + t); commit(); }
    wait<1>();
    y[t] = t % 2 ? s[t] : 0; wait<0>(); if (t % 2) y[t] += s[t + 32]; else y[t] = s[t];"""
    outcome = run(body, X[:64], y(32), np.int32(0))
    assert not outcome.events
    t = np.arange(32)
    assert np.array_equal(result(outcome, 1, np.float32), np.where(t % 2, X[t] + X[t + 32], X[t]))
    early = body.replace("t % 2 ? s[t] : 0", "s[t]")
    assert rules(run(early, X[:64], y(32), np.int32(0))) == ["memory/uninitialized-read"]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 8, 15, 16, 20])
def test_bytes_beyond_src_size_are_zero(count: int) -> None:
    body = """__shared__ __align__(16) float s[128]; int t = threadIdx.x;
    copy16(s + 4 * t, x + 4 * t, t % 2 ? n : 16); wait_all();
    for (int i = 0; i < 4; ++i) y[4 * t + i] = s[4 * t + i];"""
    outcome = run(body, X[:128], y(128), np.int32(count))
    assert not outcome.events
    expected = X[:128].view(np.uint8).reshape(32, 16).copy()
    expected[1::2, count:] = 0
    assert np.array_equal(result(outcome, 1, np.uint8).reshape(32, 16), expected)


def test_an_empty_source_may_have_any_address() -> None:
    body = """__shared__ __align__(16) float s[128]; int t = threadIdx.x; bool in = 4 * t < n;
    copy16(s + 4 * t, x + 4 * t, in ? 16 : 0); wait_all();
    for (int i = 0; i < 4; ++i) y[4 * t + i] = s[4 * t + i];"""
    outcome = run(body, X[:64], y(128), np.int32(64))
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, np.float32), np.concatenate([X[:64], np.zeros(64, np.float32)]))


def test_ignore_source() -> None:
    body = """__shared__ __align__(16) float s[128]; int t = threadIdx.x;
    asm volatile("{.reg .pred p; setp.ge.s32 p, %2, %3;cp.async.ca.shared.global.L2::128B [%0], [%1], 16, p;}"
        :: "r"(at(s + 4 * t)), "l"(x + 4 * t), "r"(t), "r"(n)); wait_all();
    for (int i = 0; i < 4; ++i) y[4 * t + i] = s[4 * t + i];"""
    outcome = run(body, X[:64], y(128), np.int32(16))
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, np.float32), np.concatenate([X[:64], np.zeros(64, np.float32)]))


@pytest.mark.parametrize(
    ("statement", "rule", "buffer"),
    [
        ("copy16(s + 4 * t, x + 4 * t + 4, 16);", "memory/out-of-bounds", "a0"),
        ("copy16(s + 4 * t + 4, x + 4 * t, 16);", "memory/out-of-bounds", "s"),
        ("copy16(s + 4 * t, x + 2 * t, 16);", "memory/misaligned", "a0"),
        ("copy16(s + 2 * t, x + 4 * t, 16);", "memory/misaligned", "s"),
        ("copy16(s + 4 * t, x + 4 * t + 4, 4);", "memory/out-of-bounds", "a0"),
        ("copy16(s + 4 * t, x + 4 * t + 2, 4);", "memory/misaligned", "a0"),
        ("copy4(s + t, (const float*)nullptr + t);", "memory/null-pointer", None),
    ],
)
def test_both_addresses_are_checked(statement: str, rule: str, buffer: str | None) -> None:
    body = f"__shared__ __align__(16) float s[128]; int t = threadIdx.x; {statement} wait_all(); y[t] = 0;"
    outcome = run(body, X[:128], y(32), np.int32(0))
    assert rules(outcome) == [rule]
    assert outcome.events[0].buffer == buffer
    assert outcome.events[0].instruction.startswith("cp.async")


def test_an_uninitialised_source_is_found() -> None:
    body = "__shared__ float s[32]; int t = threadIdx.x; copy4(s + t, y + t); wait_all(); y[t] = s[t];"
    assert rules(run(body, X[:32], y(32), np.int32(0))) == ["memory/uninitialized-read"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("copy4(s + t, x + t); commit(); copy4(s + t, x + t); wait_all();", "an earlier one of its thread"),
        ("copy4(s + t, x + t); copy4(s + t, x + 32 + t); wait_all();", "an earlier one of its thread"),
        ("copy4(s + t, x + t); commit(); wait<1>(); v[t] = 0; wait_all();", "is stored to while this copy"),
        # Correct: after the wait; the same once more within one group; by another thread then.
        ("copy4(s + t, x + t); commit(); wait<0>(); copy4(s + t, x + 32 + t); wait_all();", None),
        ("copy4(s + t, x + t); copy4(s + t, x + t); wait_all();", None),
        ("copy4(s + t, x + t); wait_all(); __syncwarp(); copy4(s + (t ^ 1), x + t); wait_all(); v[t ^ 1] = 0;", None),
    ],
)
def test_a_target_written_again_before_the_wait_is_found(body: str, message: str | None) -> None:
    outcome = run(
        f"__shared__ volatile float v[32]; float* s = (float*)v; int t = threadIdx.x; {body}",
        X[:64],
        y(32),
        np.int32(0),
    )
    assert rules(outcome) == (["sync/async-order"] if message else []), outcome.events
    assert not message or message in outcome.events[0].message


def test_more_copies_than_the_queue_holds() -> None:
    body = """__shared__ float s[4096]; int t = threadIdx.x;
    for (int i = 0; i < 128; ++i) copy4(s + 32 * i + t, x + (32 * i + t) % 2048);
    wait_all();
    float sum = 0; for (int i = 0; i < 128; ++i) sum += s[32 * i + t];
    y[t] = sum;"""
    outcome = run(body, X, y(32), np.int32(0))
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, np.float32), 2 * X.reshape(64, 32).sum(axis=0))


def test_copies_without_a_wait_do_not_reach_the_next_block() -> None:
    body = """__shared__ float s[32]; int t = threadIdx.x;
    if (blockIdx.x == 0) { copy4(s + t, x + t); commit(); }
    else { s[t] = -1; wait_all(); y[t] = s[t]; }"""
    source = f'{_HEAD}\nextern "C" __global__ void k(const float* x, float* y, int n) {{ {body} }}'
    outcome = launch(source, 2, 32, X[:32], y(32), np.int32(0))
    assert not outcome.events
    assert (result(outcome, 1, np.float32) == -1).all()


@pytest.mark.parametrize("between", ["", "__syncthreads();"])
@pytest.mark.parametrize("place", ["t < 50 ? t : 49", "t % 32"], ids=["tail", "warps"])
@pytest.mark.parametrize("other", ["", "+ t / 32"], ids=["same", "other"])
def test_threads_may_copy_the_same_bytes_to_one_place(between: str, place: str, other: str) -> None:
    # The rule of stores: what changes nothing shows in no order.
    body = f"""__shared__ float s[64]; int t = threadIdx.x, i = {place};
    copy4(s + i, x + i {other.replace("32", "56") if "50" in place else other}); commit(); {between} wait<0>();
    __syncthreads(); y[t] = s[i];"""
    for descending in (False, True):
        outcome = run(body, X[:128], y(64), np.int32(0), block=64, descending=descending)
        assert rules(outcome) == (["memory/shared-race"] if other else [])
