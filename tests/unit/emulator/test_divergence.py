"""Random divergent programs: the fast and the general translation agree with one thread at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest
from emulator_launch import compile_ptx, launch
from random_programs import INPUTS, OUTPUTS, RandomProgram

from gpuemu_lsp.engine.emulator.kernels import Kernel


@pytest.mark.parametrize("general", [False, True], ids=["fast", "general"])
@pytest.mark.parametrize("seed", [*range(6), 17])
def test_random_program(seed: int, general: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if general:
        shape_of = Kernel.specialised
        monkeypatch.setattr(Kernel, "specialised", lambda self, block, *_: (shape_of(self, block)[0], None))
    program = RandomProgram(seed)
    rng = random.Random(seed)
    data = [rng.randrange(1 << 32) for _ in range(INPUTS)]
    block = rng.choice([(64, 1, 1), (16, 4, 1), (50, 1, 1), (8, 4, 2), (7, 9, 1)])
    threads = block[0] * block[1] * block[2]
    ptx = compile_ptx(program.source()) + ("\n// general" if general else "")
    x = np.array(data, dtype=np.uint32)
    outcome = launch("//" + ptx.removeprefix("//"), 2, block, x, np.zeros(2 * threads * OUTPUTS, np.uint32))
    assert outcome.status == "completed"
    assert not outcome.events
    expected = np.array(program.expected(data, 2, threads), dtype=np.uint32)
    np.testing.assert_array_equal(outcome.buffers["a1"].view(np.uint32), expected)


def test_lanes_leave_a_loop_in_different_rounds() -> None:
    source = """extern "C" __global__ void k(const unsigned* x, unsigned* y) {
      unsigned t = threadIdx.x, w = t >> 5, b = 2;
      for (unsigned i = 0; i < (t & 1) + 2; i++) if (((w & b) * (blockIdx.x + 1)) & 1) b = 1;
      y[t] = b; }"""
    outcome = launch(source, 1, 50, np.zeros(1, np.uint32), np.zeros(50, np.uint32))
    assert outcome.buffers["a1"].view(np.uint32).tolist() == [2] * 50
