"""Every planted race is found on its lines, and no correct counterpart is flagged, for several block sizes."""

from __future__ import annotations

import os

import numpy as np
import pytest
from support.emulator_launch import Checks, launch, rules
from support.race_kernels import PLANTED, PlantedRace

from gpuemu_lsp.engine.execution import Outcome

SIZES = [32, 48, 256, 1000]
LEVELS = [(), ("-G",)]


def run(planted: PlantedRace, *, fixed: bool, block: int, options: tuple[str, ...], races: bool = True) -> Outcome:
    blocks = planted.blocks
    n = block * blocks
    x = np.random.default_rng(block).integers(0, 1000, 4 * n, dtype=np.int32)
    y, z = np.zeros(4 * n, np.int32), np.zeros(1024, np.int32)
    checks = Checks(uninitialized=False, races=races)
    return launch(planted.source(fixed), blocks, block, x, y, z, np.int32(n), options=options, checks=checks)


def fits(planted: PlantedRace, block: int) -> bool:
    return not planted.whole_warps or block % 32 == 0


BUG_SIZES = SIZES if os.environ.get("GPUEMU_ALL_SIZES") else [256]

CASES = [(planted, block) for planted in PLANTED for block in SIZES if fits(planted, block)]
BUGS = [(planted, block) for planted, block in CASES if block in BUG_SIZES and block >= planted.least]
NAMES = [f"{planted.name}-{block}" for planted, block in CASES]


@pytest.mark.parametrize("options", LEVELS, ids=["optimised", "unoptimised"])
@pytest.mark.parametrize(("planted", "block"), CASES, ids=NAMES)
def test_the_correct_counterpart_is_not_flagged(planted: PlantedRace, block: int, options: tuple[str, ...]) -> None:
    outcome = run(planted, fixed=True, block=block, options=options)
    assert outcome.status == "completed"
    assert not outcome.events


@pytest.mark.parametrize("options", LEVELS, ids=["optimised", "unoptimised"])
@pytest.mark.parametrize(("planted", "block"), BUGS, ids=[f"{planted.name}-{block}" for planted, block in BUGS])
def test_a_race_is_found_with_both_accesses(planted: PlantedRace, block: int, options: tuple[str, ...]) -> None:
    outcome = run(planted, fixed=False, block=block, options=options)
    races = [event for event in outcome.events if event.rule == f"memory/{planted.space}-race"]
    assert races, outcome.events
    lines = {place.line for event in races for place in (event.location, event.other) if place is not None}
    assert lines == planted.lines
    for event in races:
        other = event.data["other_thread"]
        assert other is None or (event.thread, event.block) != (tuple(other), tuple(event.data["other_block"]))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_no_race_is_reported_without_the_check(planted: PlantedRace) -> None:
    outcome = run(planted, fixed=False, block=256, options=(), races=False)
    assert not [rule for rule in rules(outcome) if rule.endswith("-race")]
