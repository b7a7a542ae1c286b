"""Every planted memory and synchronisation bug is found by its rule, on its line; no correct counterpart is flagged.

For blocks of 32, 48, 256 and 1000 threads, ragged grids, optimised and unoptimised PTX. Each kernel is run with two of
these launches in turn; ``GPUEMU_ALL_SIZES=1`` runs all of them.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from support.emulator_launch import launch, out
from support.fault_kernels import FAULTS, PlantedFault
from support.race_kernels import PLANTED

from gpuemu_lsp.engine.execution import Outcome

SIZES = (32, 48, 256, 1000)
LEVELS: tuple[tuple[str, ...], ...] = ((), ("-G",))
BLOCKS = 3


def launches(index: int, fault: PlantedFault) -> list[tuple[int, tuple[str, ...]]]:
    sizes = [size for size in SIZES if size >= fault.least and (size % 32 == 0 or not fault.whole_warps)]
    if os.environ.get("GPUEMU_ALL_SIZES"):
        return [(size, level) for size in sizes for level in LEVELS]
    return [(sizes[(index + turn) % len(sizes)], LEVELS[turn]) for turn in range(2)]


CASES = [(fault, size, level) for index, fault in enumerate(FAULTS) for size, level in launches(index, fault)]
NAMES = [f"{fault.name}-{size}{'-unoptimised' if level else ''}" for fault, size, level in CASES]


def run(fault: PlantedFault, *, fixed: bool, block: int, options: tuple[str, ...]) -> Outcome:
    n = BLOCKS * block - 7
    x = np.random.default_rng(block).integers(0, 1000, n, dtype=np.int32)
    x[-1] = 999
    y, z = np.zeros(n, np.int32), np.zeros(1024, np.int32)
    source = fault.source(fixed)
    return launch(source, BLOCKS, block, x, out(y), z, np.int32(n), shared=4 * block, options=options, max_steps=20_000)


@pytest.mark.parametrize(("fault", "block", "options"), CASES, ids=NAMES)
def test_the_bug_is_found_on_its_line(fault: PlantedFault, block: int, options: tuple[str, ...]) -> None:
    outcome = run(fault, fixed=False, block=block, options=options)
    assert {event.rule for event in outcome.events} == {fault.rule}, outcome.events
    lines = {event.location.line for event in outcome.events if event.location is not None}
    assert lines and lines <= fault.lines
    assert all(event.thread is not None and event.block is not None for event in outcome.events)


@pytest.mark.parametrize(("fault", "block", "options"), CASES, ids=NAMES)
def test_the_correct_counterpart_is_clean(fault: PlantedFault, block: int, options: tuple[str, ...]) -> None:
    outcome = run(fault, fixed=True, block=block, options=options)
    assert (outcome.status, outcome.events) == ("completed", ())


def test_there_are_at_least_sixty_planted_bugs() -> None:
    assert len({fault.name for fault in FAULTS} | {race.name for race in PLANTED}) >= 60
