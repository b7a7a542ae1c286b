"""Random programs of accesses and synchronisation: the race detector agrees with a check of all pairs of accesses.

Compiled without optimisation, so that the accesses are those of the source.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from support.emulator_launch import Checks, launch

INDICES: dict[str, Callable[[int, int], int]] = {
    "t": lambda t, m: t,
    "t ^ 1": lambda t, m: t ^ 1,
    "m - 1 - t": lambda t, m: m - 1 - t,
    "t / 2": lambda t, m: t // 2,
    "t % 8": lambda t, m: t % 8,
    "0": lambda t, m: 0,
    "(t + 1) % m": lambda t, m: (t + 1) % m,
    "t / 32": lambda t, m: t // 32,
    "t % 32": lambda t, m: t % 32,
    "t / 32 * 32 + 31 - t % 32": lambda t, m: t // 32 * 32 + 31 - t % 32,
    "t / 32 * 32 + t % 4": lambda t, m: t // 32 * 32 + t % 4,
    "t / 16": lambda t, m: t // 16,
    "t / 16 * 16 + t % 16 / 2": lambda t, m: t // 16 * 16 + t % 16 // 2,
}
GUARDS: dict[str, Callable[[int, int], bool]] = {
    "true": lambda t, m: True,
    "t < 20": lambda t, m: t < 20,
    "t % 3 == 0": lambda t, m: t % 3 == 0,
    "t == m - 1": lambda t, m: t == m - 1,
    "t % 32 == 0": lambda t, m: t % 32 == 0,
}
SYNCHRONISATION = {
    "": "",
    "warp": "__syncwarp();",
    "half": "if (t % 32 < 16) __syncwarp(0xffff);",
    "halves": "__syncwarp(0xffffu << t % 32 / 16 * 16);",
    "block": "__syncthreads();",
}
ACTS = {
    "write": "{0} = x[t] + {1} + t;",
    "add": "{0} += x[t] + {1};",
    "read": "sum += {0};",
    "update": "atomicAdd(&{0}, {1} + t);",
}


@dataclass(frozen=True)
class Step:
    """An access by the threads for which the guard holds, and the synchronisation after it."""

    act: str
    memory: str
    index: str
    guard: str
    sync: str


def drawn(seed: int) -> tuple[int, list[Step]]:
    rng = random.Random(seed)
    loose = seed % 2  # every other program synchronises rarely
    syncs = ["", "half", "halves", "halves", "warp", "block"] if loose else ["warp", "warp", "block", "block", ""]
    steps = [
        Step(
            rng.choice(["write", "add", "read", "read", "update"]),
            rng.choice(["s", "s", "g"]),
            rng.choice(list(INDICES)),
            rng.choice([*GUARDS, "true", "true"]),
            rng.choice(syncs),
        )
        for _ in range(rng.randint(2, 4) if loose else rng.randint(3, 8))
    ]
    return rng.choice([32, 64, 96]), steps


def source(steps: list[Step]) -> str:
    lines = [
        'extern "C" __global__ void k(const int* x, int* y, int* g) {',
        "  const int t = threadIdx.x, m = blockDim.x;",
        "  int sum = 0;",
        "  __shared__ int s[128];",
        "  for (int j = t; j < 128; j += m) s[j] = -j - 1;",
        "  __syncthreads();",
    ]
    for number, step in enumerate(steps, 1):
        act = ACTS[step.act].format(f"{step.memory}[{step.index}]", 1000 * number)
        lines.append(f"  if ({step.guard}) {act} {SYNCHRONISATION[step.sync]}")
    return "\n".join([*lines, "  y[t] = sum;", "}"])


def racing(threads: int, steps: list[Step]) -> set[str]:
    """Return the memories with two conflicting, unordered accesses, by comparing all pairs."""
    found = set()
    made = [
        (number, step, thread, INDICES[step.index](thread, threads))
        for number, step in enumerate(steps)
        for thread in range(threads)
        if GUARDS[step.guard](thread, threads)
    ]
    for (first, one, t, place), (second, other, u, where) in itertools.combinations(made, 2):
        if (
            (one.memory, place) != (other.memory, where)
            or t == u
            or (one.act == other.act and one.act in ("read", "update"))
        ):
            continue
        between = {step.sync for step in steps[first:second]}
        same_warp = t // 32 == u // 32
        ordered = "block" in between or (same_warp and "warp" in between)
        same_half = same_warp and t % 32 // 16 == u % 32 // 16
        if not ordered and not (same_half and ("halves" in between or ("half" in between and t % 32 < 16))):
            found.add(one.memory)
    return found


@pytest.mark.parametrize("seed", range(24))
def test_agrees_with_all_pairs(seed: int) -> None:
    threads, steps = drawn(seed)
    x = np.random.default_rng(seed).integers(0, 1000, threads, dtype=np.int32)
    y, g = np.zeros(threads, np.int32), np.zeros(128, np.int32)
    checks = Checks(uninitialized=False)
    outcome = launch(source(steps), 1, threads, x, y, g, options=("-G",), checks=checks)
    assert outcome.status == "completed"
    reported = {"s" if event.rule == "memory/shared-race" else "g" for event in outcome.events}
    assert reported == racing(threads, steps), source(steps)


def test_programs_with_and_without_races_are_drawn() -> None:
    answers = [racing(*drawn(seed)) for seed in range(24)]
    assert sum(not answer for answer in answers) >= 4 and sum(map(bool, answers)) >= 8
