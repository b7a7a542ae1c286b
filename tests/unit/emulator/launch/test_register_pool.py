"""``setmaxnreg``: what the warps of a block ask for, against the registers that the block has."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, result, rules
from support.hopper_kernels import compiled

KERNEL = r"""
extern "C" __global__ void __launch_bounds__(BOUND) k(int* y) {
  if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  else if (threadIdx.x < ASKED) asm volatile("setmaxnreg.inc.sync.aligned.u32 VALUE;");
  y[threadIdx.x] = threadIdx.x;
}
"""


def _run(bound="384, 1", value=232, asked=384, change=("", "")):
    source = KERNEL.replace("BOUND", bound).replace("VALUE", str(value)).replace("ASKED", str(asked))
    text = compiled(source)
    assert change[0] in text
    return launch(text.replace(*change), 1, 384, out(np.zeros(384, np.int32)))


# ptxas 13 says for these bounds: 168 registers, 168 with the size in .reqntid, 100, and that it ignores the instruction.
@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({}, True),
        ({"value": 240}, False),
        ({"value": 240, "bound": "384"}, True),
        ({"value": 232, "change": (".maxntid", ".reqntid")}, True),
        ({"value": 240, "change": (".maxntid", ".reqntid")}, False),
        ({"value": 128, "change": (".minnctapersm 1", ".maxnreg 100")}, True),
        ({"value": 136, "change": (".minnctapersm 1", ".maxnreg 100")}, False),
        # 256 threads that ask leave enough, whatever the 128 that do not hold.
        ({"value": 248, "asked": 256}, True),
    ],
)
def test_the_sum_of_all_warps(arguments, fits):
    outcome = _run(**arguments)
    assert np.array_equal(result(outcome, 0, np.int32), np.arange(384))
    assert rules(outcome) == ([] if fits else ["sync/register-pool"])
    if not fits:
        assert "this `setmaxnreg.inc` waits forever" in outcome.events[0].message
        assert outcome.events[0].instruction.startswith("setmaxnreg.inc")


def test_numbers_are_named():
    message = _run(value=240).events[0].message
    assert "ask for 66560 registers in all, and it has 64512: 168 for each of 384 threads" in message


def test_a_part_of_a_warp_group():
    outcome = _run(asked=320)
    assert rules(outcome) == ["sync/register-pool"]
    assert "warps of this warp group do not all execute the same" in outcome.events[0].message
