"""Races between blocks alone, for languages in which a block is one sequential program."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import Checks, launch, rules

from gpuemu_lsp.engine.cause import Cause

BETWEEN = Checks(uninitialized=False, block_races=False)
ALL = Checks(uninitialized=False)
SHARED = """
extern "C" __global__ void k(int* y) {
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}
"""
WITHIN = """
extern "C" __global__ void k(int* y) { y[blockIdx.x] = threadIdx.x; }
"""
SAME_SITE = """
extern "C" __global__ void k(int* y) { y[0] = 64 * blockIdx.x + threadIdx.x; }
"""
READ_BY_ALL = """
extern "C" __global__ void k(int* y) {
    int old = y[0];
    if (threadIdx.x == 63 && blockIdx.x == 1) y[0] = old + 1;
    y[64 + 64 * blockIdx.x + threadIdx.x] = old;
}
"""


def found(source: str, checks: Checks) -> set[str]:
    return set(rules(launch(source, 2, 64, np.zeros(256, np.int32), checks=checks)))


@pytest.mark.parametrize(
    ("source", "rule"), [(SHARED, "memory/shared-race"), (WITHIN, "memory/global-race")], ids=["shared", "global"]
)
def test_a_race_within_a_block_is_left_out(source: str, rule: str) -> None:
    assert found(source, ALL) == {rule}
    assert found(source, BETWEEN) == set()


@pytest.mark.parametrize("source", [SAME_SITE, READ_BY_ALL], ids=["writes", "reads"])
def test_a_race_between_blocks_is_found_after_one_within(source: str) -> None:
    assert found(source, BETWEEN) == {"memory/global-race"}


def test_the_other_access_is_by_another_block() -> None:
    outcome = launch(SAME_SITE, 2, 64, np.zeros(256, np.int32), checks=BETWEEN)
    assert outcome.events and all(list(event.block) != event.data["other_block"] for event in outcome.events)


LOCKED = """
extern "C" __global__ void k(int* lock, int* y) {
    const int t = threadIdx.x;
    if (t == 0) while (atomicCAS(lock, 0, 1)) {}
    __threadfence();
    __syncthreads();
    for (int i = t; i < 4096; i += 64) y[i] += 1 + AGAIN(y[4096 + i]);
    __threadfence();
    __syncthreads();
    if (t == 0) atomicExch(lock, 0);
    __syncthreads();
    AFTER
}
"""


@pytest.mark.parametrize("checks", [BETWEEN, ALL], ids=["between", "all"])
def test_a_lock_orders_what_was_before_its_release_only(checks: Checks) -> None:
    def rules_of(again: str, after: str) -> set[str]:
        source = LOCKED.replace("AGAIN(y[4096 + i])", again).replace("AFTER", after)
        y = np.zeros(8192, np.int32)
        return set(rules(launch(source, 4, 64, np.zeros(1, np.int32), y, checks=checks)))

    assert rules_of("0", "") == set()
    assert rules_of("y[4096 + i]", "") == set()
    assert rules_of("y[4096 + i]", "y[4096 + t] = blockIdx.x;") == {"memory/global-race"}


READ_BACK = """
extern "C" __global__ void k(int* y) {
    const int t = threadIdx.x, first = 64 * blockIdx.x;
    y[first + t] = t + 1;
    BARRIER
    y[128 + first + t] = y[first + READER];
    OTHERS
}
"""


@pytest.mark.parametrize("reader", ["63 - t", "(t + 32) % 64", "0", "63"])
def test_a_read_back_by_another_warp_is_a_race_in_one_program(reader: str) -> None:
    source = READ_BACK.replace("READER", reader).replace("OTHERS", "")
    assert found(source.replace("BARRIER", "__syncthreads();"), BETWEEN) == set()
    outcome = launch(source.replace("BARRIER", ""), 2, 64, np.zeros(256, np.int32), checks=BETWEEN)
    assert {(event.rule, event.cause) for event in outcome.events} == {("memory/global-race", Cause.WITHIN_PROGRAM)}


def test_a_read_back_by_the_same_warp_is_not_reported() -> None:
    for reader in ("t", "t ^ 1", "t / 32 * 32"):
        assert found(READ_BACK.replace("READER", reader).replace("OTHERS", "").replace("BARRIER", ""), BETWEEN) == set()


def test_a_race_between_blocks_is_named_after_a_read_back() -> None:
    source = READ_BACK.replace("y[first + READER]", "y[t < 32 ? first + 63 : 0]").replace("BARRIER", "")
    outcome = launch(source.replace("OTHERS", ""), 2, 64, np.zeros(256, np.int32), checks=BETWEEN)
    causes = [event.cause for event in outcome.events if event.rule == "memory/global-race"]
    assert None in causes


def test_a_lock_that_excludes_nothing_is_followed_for_some_accesses_only() -> None:
    source = LOCKED.replace("AGAIN(y[4096 + i])", "0").replace("AFTER", "")
    source = source.replace("while (atomicCAS(lock, 0, 1)) {}", "")
    outcome = launch(source, 64, 64, np.zeros(1, np.int32), np.zeros(8192, np.int32), checks=BETWEEN)
    counts = [event.count for event in outcome.events if event.rule == "memory/global-race"]
    # 63 x 4096 reads race, and as many writes, of the few instructions of an unrolled loop.
    assert counts and sum(counts) < 63 * 4096 / 8
