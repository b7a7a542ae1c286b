"""Rows of consecutive lanes in global memory, of any alignment and extent: races are found exactly where they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from support.emulator_launch import Checks, launch

from gpuemu_lsp.engine.execution import Event

BLOCK, BLOCKS, STEPS, WORDS = 96, 3, 6, 512
NOTHING, STORE, LOAD, BARRIER = range(4)

ROWS = """
typedef TYPE T;
extern "C" __global__ void k(const int* steps, int* memory, int* sums, int count) {
  T* y = (T*)memory;
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  int sum = 0;
  for (int s = 0; s < count; ++s) {
    const int* step = steps + 4 * (blockIdx.x * count + s);
    const int kind = step[0], start = step[1];
    if (kind == 3) __syncthreads();
    if (t >= step[2] && t < step[3]) {
      if (kind == 1) y[start + t] = MAKE(8 * i + s + 1);
      if (kind == 2) sum += TAKE(y[start + t]);
    }
  }
  sums[i] = sum;
}
"""
TYPES = {
    "int": (1, "x", "v"),
    "short": (0.5, "x", "v"),
    "int2": (2, "make_int2(x, x)", "(v).x"),
    "int4": (4, "make_int4(x, x, x, x)", "(v).x"),
}


@dataclass(frozen=True)
class Access:
    """An access of one thread to one element, with the number of its block's barriers before it."""

    block: int
    thread: int
    stores: bool
    barriers: int


def accesses(steps: np.ndarray) -> dict[int, list[Access]]:
    """Return the accesses to each element."""
    found: dict[int, list[Access]] = {}
    for block in range(BLOCKS):
        barriers = 0
        for kind, start, first, last in steps[block]:
            barriers += int(kind == BARRIER)
            for thread in range(first, last) if kind in (STORE, LOAD) else ():
                access = Access(block, thread, bool(kind == STORE), barriers)
                found.setdefault(int(start) + thread, []).append(access)
    return found


def races(steps: np.ndarray) -> set[frozenset[tuple[int, int]]]:
    """Return the pairs of (block, thread) that race, by comparing all pairs of accesses."""
    pairs = set()
    for among in accesses(steps).values():
        for i, one in enumerate(among):
            for other in among[:i]:
                ordered = one.block == other.block and (one.thread == other.thread or one.barriers != other.barriers)
                if (one.stores or other.stores) and not ordered:
                    pairs.add(frozenset({(one.block, one.thread), (other.block, other.thread)}))
    return pairs


def threads_of(event: Event) -> frozenset[tuple[int, int]] | None:
    """Return both threads of a race, None if the other one is not named."""
    assert event.thread is not None and event.block is not None
    if event.data["other_thread"] is None:
        return None
    other = event.data["other_block"][0], event.data["other_thread"][0]
    return frozenset({(event.block[0], event.thread[0]), other})


def drawn(seed: int) -> np.ndarray:
    """Return each block's steps: rows that mostly are disjoint, and sometimes overlap."""
    rng = np.random.default_rng(seed)
    steps = np.zeros((BLOCKS, STEPS, 4), np.int32)
    offset = int(rng.integers(0, 16)) * int(rng.integers(0, 2))
    for block in range(BLOCKS):
        for step in range(STEPS):
            kind = rng.choice([STORE, LOAD, BARRIER], p=[0.45, 0.35, 0.2])
            first, last = (0, BLOCK) if rng.random() < 0.5 else sorted(rng.integers(0, BLOCK + 1, 2))
            astray = rng.integers(-2, 3) if rng.random() < 0.08 else 0
            steps[block, step] = kind, max(block * BLOCK + offset + astray, 0), first, last
    return steps


@pytest.mark.parametrize("name", TYPES)
def test_rows_race_exactly_where_threads_share_an_element(name: str) -> None:
    words, make, take = TYPES[name]
    source = f"#define MAKE(x) {make}\n#define TAKE(v) {take}\n" + ROWS.replace("TYPE", name)
    with_races = 0
    for seed in range(60):
        steps = drawn(seed)
        expected = races(steps)
        memory = np.zeros(int(WORDS * words), np.int32)
        sums = np.zeros(BLOCK * BLOCKS, np.int32)
        checks = Checks(uninitialized=False)
        outcome = launch(source, BLOCKS, BLOCK, steps.reshape(-1), memory, sums, np.int32(STEPS), checks=checks)
        assert outcome.status == "completed"
        found = [threads_of(event) for event in outcome.events if event.rule == "memory/global-race"]
        assert bool(found) == bool(expected), seed
        assert all(pair is None or pair in expected for pair in found), seed
        with_races += bool(expected)
    assert 10 < with_races < 50
