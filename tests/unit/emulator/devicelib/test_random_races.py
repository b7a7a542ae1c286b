"""Random programs of accesses and synchronisation: the race detector agrees with a check of all pairs of accesses.

Compiled without optimisation, so that the accesses are those of the source.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
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
    "pairs": "__syncwarp(3u << t % 32 / 2 * 2);",
    # Pairs that overlap those above: order is passed on from one to the next.
    "shifted": "if (t % 32 % 31 != 0) __syncwarp(6u << (t % 32 - 1) / 2 * 2);",
    "block": "__syncthreads();",
}
ACTS = {
    "write": "{0} = x[t] + {1} + t + 499 * b;",
    "add": "{0} += x[t] + {1} + b;",
    "read": "sum += {0};",
    "update": "atomicAdd(&{0}, {1} + t);",
    "update in block": "atomicAdd_block(&{0}, {1} + t);",
}
READS = {"read"}
ATOMICS = {"update", "update in block"}


@dataclass(frozen=True)
class Step:
    """An access by the threads for which the guard holds, and the synchronisation after it."""

    act: str
    memory: str
    index: str
    guard: str
    sync: str


@dataclass(frozen=True)
class Drawn:
    """A program and its launch."""

    blocks: int
    threads: int
    steps: list[Step]

    def group(self, sync: str, t: int) -> object:
        """Return what the threads of a block share that synchronise with thread ``t``."""
        warp, lane = divmod(t, 32)
        alone = ("alone", t)
        return {
            "": alone,
            "warp": warp,
            "half": warp if lane < 16 else alone,
            "halves": (warp, lane // 16),
            "pairs": (warp, lane // 2),
            "shifted": alone if lane in (0, 31) else (warp, (lane - 1) // 2),
            "block": 0,
        }[sync]


def drawn(seed: int) -> Drawn:
    rng = random.Random(seed)
    loose = seed % 2  # every other program synchronises rarely
    partial = ["pairs", "shifted"] if seed % 3 == 0 else ["half", "halves", "halves"]
    syncs = ["", *partial, "warp", "block"] if loose else ["warp", "warp", "block", "block", "", *partial[:1]]
    scopes = seed % 4 == 0
    # Steps on one location by few threads find what merged records forget.
    mixed = ["update", "update in block", *(["read", "write"] if seed % 8 else ["update"])]
    acts = mixed if scopes else ["write", "add", "read", "read", "update"]
    indices = ["0", "t / 32", "t % 8"] if seed % 3 == 0 else list(INDICES)
    steps = [
        Step(
            rng.choice(acts),
            rng.choice(["s", "g", "g"] if scopes else ["s", "s", "g"]),
            rng.choice(indices),
            rng.choice([*GUARDS, "true", "true"]),
            rng.choice(syncs),
        )
        for _ in range(rng.randint(1, 3) if scopes else rng.randint(2, 4) if loose else rng.randint(3, 8))
    ]
    return Drawn(2 if scopes else rng.choice([1, 2]), rng.choice([32, 64, 96]), steps)


def source(program: Drawn) -> str:
    lines = [
        'extern "C" __global__ void k(const int* x, int* y, int* g) {',
        "  const int t = threadIdx.x, b = blockIdx.x, m = blockDim.x;",
        "  int sum = 0;",
        "  __shared__ int s[128];",
        "  for (int j = t; j < 128; j += m) s[j] = -j - 1;",
        "  __syncthreads();",
    ]
    for number, step in enumerate(program.steps, 1):
        act = ACTS[step.act].format(f"{step.memory}[{step.index}]", 1000 * number)
        lines.append(f"  if ({step.guard}) {{ {act} }} {SYNCHRONISATION[step.sync]}")
    return "\n".join([*lines, "  y[b * m + t] = sum;", "}"])


def racing(program: Drawn) -> set[str]:
    """Return the memories with two conflicting, unordered accesses, by comparing all pairs."""
    steps, threads = program.steps, program.threads
    # By step, thread and thread: the number of the other thread's steps that are ordered before.
    known = np.zeros((len(steps) + 1, threads, threads), dtype=np.int64)
    for number, step in enumerate(steps):
        groups = defaultdict(list)
        for t in range(threads):
            groups[program.group(step.sync, t)].append(t)
        for members in groups.values():
            joined = known[number, members].max(axis=0)
            joined[members] = number + 1
            known[number + 1, members] = joined if len(members) > 1 else known[number, members]
    made = defaultdict(list)
    for number, step in enumerate(steps):
        for block in range(program.blocks):
            for t in range(threads):
                if GUARDS[step.guard](t, threads):
                    place = (step.memory, block if step.memory == "s" else 0, INDICES[step.index](t, threads))
                    made[place].append((number, step.act, block, t))
    found = set()
    for (memory, _, _), accesses in made.items():
        for (first, one, block, t), (second, other, away, u) in itertools.combinations(accesses, 2):
            # The scope of an atomic matters between blocks only.
            strong = {one, other} <= ({"update"} if block != away else ATOMICS)
            if (block, t) == (away, u) or strong or {one, other} <= READS:
                continue
            if block != away or known[second, u, t] <= first:
                found.add(memory)
                break
    return found


@pytest.mark.parametrize("seed", range(48))
def test_agrees_with_all_pairs(seed: int) -> None:
    program = drawn(seed)
    size = program.blocks * program.threads
    x = np.random.default_rng(seed).integers(0, 1000, program.threads, dtype=np.int32)
    y, g = np.zeros(size, np.int32), np.zeros(128, np.int32)
    checks = Checks(uninitialized=False)
    text = source(program)
    outcome = launch(text, program.blocks, program.threads, x, y, g, options=("-G",), checks=checks)
    assert outcome.status == "completed"
    reported = {"s" if event.rule == "memory/shared-race" else "g" for event in outcome.events}
    assert reported == racing(program), text


def test_programs_with_and_without_races_are_drawn() -> None:
    answers = [racing(drawn(seed)) for seed in range(48)]
    assert sum(not answer for answer in answers) >= 8 and sum(map(bool, answers)) >= 16
