"""A fixed sample of the random kernels of benchmarks/fuzz_emulator.py."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, ptx_kernel

from benchmarks.fuzz_emulator import run_kernel, run_mutant
from benchmarks.fuzzing import programs, semantics
from benchmarks.fuzzing.statements import Assignment
from gpuemu_lsp.engine.emulator import Emulator

EMULATOR = Emulator()
ENDINGS = {"refused by the parser", "no kernel left", "completed", "trapped", "hung", "unsupported", "failed"}


@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_random_kernel(seed: int, optimised: bool) -> None:
    assert run_kernel(Emulator(optimised=optimised), seed) == "equal"


# Seeds 21, 41 and 57 once raised an exception in the translator.
@pytest.mark.parametrize("seed", [21, 41, 57, *range(100, 120)])
def test_mutant(seed: int) -> None:
    assert run_mutant(EMULATOR, seed) in ENDINGS


def test_a_wrong_result_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(
        seed for seed in range(100) if any(isinstance(item, Assignment) for item in programs.RandomKernel(seed).items)
    )
    honest = programs.RandomKernel.expected
    monkeypatch.setattr(programs.RandomKernel, "expected", lambda self, blocks: [v ^ 1 for v in honest(self, blocks)])
    with pytest.raises(AssertionError, match="instead of"):
        run_kernel(EMULATOR, seed)


def test_rounding_against_known_values() -> None:
    from fractions import Fraction

    one, ulp = 0x3F800000, Fraction(1, 1 << 23)
    assert semantics.encode(1 + ulp / 2, "rn", 0) == one  # ties to even
    assert semantics.encode(1 + ulp * 3 / 2, "rn", 0) == one + 2
    assert semantics.encode(1 + ulp / 2, "rp", 0) == one + 1
    assert semantics.encode(-1 - ulp / 2, "rp", 0) == one | 0x80000000
    assert semantics.encode(Fraction(1, 1 << 150), "rn", 0) == 0
    assert semantics.encode(Fraction(3, 1 << 150), "rn", 0) == 2
    assert semantics.encode(Fraction(1 << 128), "rz", 0) == 0x7F7FFFFF
    assert semantics.encode(Fraction(1 << 128), "rn", 0) == 0x7F800000


NARROW = ptx_kernel(
    "y",
    """\
  .reg .b32 %r<2>;
  .reg .s8 %c<2>;
  mov.u32 %r0, %tid.x;
  LINE
$L1:
  bra.uni $L2;
$L2:
  and.b32 %c1, %c0, 3;
  ret;""",
)


@pytest.mark.parametrize(
    ("line", "why"), [("and.b32 %c0, %r0, 7;", "for a register of 8"), ("", "from a register of 8")]
)
def test_a_register_that_is_too_narrow_is_refused(line: str, why: str) -> None:
    # Its slot in memory is as narrow: a wider store once crashed the process.
    outcome = launch(NARROW.replace("LINE", line), 1, 64, np.zeros(8, np.uint8))
    assert outcome.status == "failed" and why in outcome.events[0].message


PARTIAL = ptx_kernel(
    "y",
    """\
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<3>;
  ld.param.u64 %d0, [y];
  mov.u32 %r0, %tid.x;
  setp.ge.u32 %p0, %r0, 5;
  @%p0 bra $L1;
  tex.2d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%d0, {%r0, %r0}];
  mul.wide.u32 %d1, %r1, 4;
  add.u64 %d2, %d0, %d1;
  st.global.u32 [%d2], %r1;
$L1:
  ret;""",
)


def test_an_unsupported_instruction_in_some_lanes_does_not_affect_the_code_after_it() -> None:
    assert launch(PARTIAL, 1, 32, np.zeros(64, np.uint8)).status == "unsupported"


@pytest.mark.parametrize("variable", [".shared .b8 s[99999999999999999999];", ".local .b8 s[99999999999];"])
def test_variables_larger_than_memory_are_refused(variable: str) -> None:
    ptx = PARTIAL.replace(".reg .pred", f"{variable}\n  .reg .pred", 1).replace("tex.2d", "st.b32 [s], 0; tex.2d")
    outcome = launch(ptx, 1, 32, np.zeros(64, np.uint8))
    assert outcome.status == "failed" and "it needs" in outcome.events[0].message


def test_more_parameters_than_memory_are_refused() -> None:
    ptx = PARTIAL.replace("(.param .u64 y)", "(.param .u64 y, .param .align 4 .b8 z[99999999999])")
    outcome = launch(ptx, 1, 32, np.zeros(64, np.uint8), np.uint8(0))
    assert outcome.status == "failed" and "it needs" in outcome.events[0].message
