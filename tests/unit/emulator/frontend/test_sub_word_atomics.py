"""16-bit atomic operations that LLVM expands to compare-and-swap of the 32-bit word around the element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.emulator_launch import launch, ptx_kernel, result

# atomicrmw fadd of bf16 for sm_80: element (block + thread) / 2 of y gets 1.
ADD = """.reg .pred %p<3>; .reg .b64 %d<6>; .reg .b32 %r<20>; .reg .b16 %h<4>;
ld.param.b64 %d1, [y]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; add.u32 %r1, %r1, %r2; shr.u32 %r1, %r1, 1;
mul.wide.u32 %d2, %r1, 2; add.s64 %d3, %d1, %d2; and.b64 %d4, %d3, -4; {plain}
cvt.u32.u64 %r7, %d3; and.b32 %r8, %r7, 3; shl.b32 %r3, %r8, 3; mov.b32 %r9, {mask}; shl.b32 %r10, %r9, %r3;
not.b32 %r4, %r10; ld.relaxed.gpu.global.b32 %r16, [%d4];
again: shr.u32 %r11, %r16, %r3; cvt.u16.u32 %h1, %r11; mov.b16 %h2, 0x3F80; fma.rn.bf16 %h3, %h1, %h2, %h2;
cvt.u32.u16 %r12, %h3; shl.b32 %r13, %r12, %r3; and.b32 %r14, %r16, %r4; or.b32 %r15, %r14, %r13;
atom.relaxed.gpu.global.cas.b32 %r5, [%d4], %r16, %r15; setp.ne.b32 %p1, %r5, %r16; mov.b32 %r16, %r5;
@%p1 bra again; ret;"""


def add(mask: int = 65535, plain: str = "") -> str:
    return ptx_kernel("y", ADD.replace("{mask}", str(mask)).replace("{plain}", plain))


def test_the_last_element_of_an_odd_number_of_them_is_in_bounds() -> None:
    outcome = launch(add(), 3, 40, np.zeros(21, ml_dtypes.bfloat16))
    counts = np.bincount([(block + thread) // 2 for block in range(3) for thread in range(40)], minlength=21)
    assert not outcome.events
    assert result(outcome, 0, ml_dtypes.bfloat16).astype(int).tolist() == counts.tolist()


def test_the_element_after_the_last_is_out_of_bounds() -> None:
    outcome = launch(add(), 1, 40, np.zeros(19, ml_dtypes.bfloat16))
    assert {event.rule for event in outcome.events} == {"memory/out-of-bounds"}
    assert {event.message for event in outcome.events} >= {"read of a0[19] is out of bounds: a0 has 19 elements"}
    assert outcome.buffers["a0"].view(ml_dtypes.bfloat16).astype(int).tolist() == [2] * 19


@pytest.mark.parametrize(("element", "races"), [(40, False), (2, True)])
def test_only_the_element_takes_part_in_races(element: int, races: bool) -> None:
    # A plain store of another block to the other half of a word that is updated.
    plain = f".reg .b16 %n; mov.b16 %n, 0; setp.eq.u32 %p2, %r2, 9; @%p2 st.global.b16 [%d1+{2 * element}], %n;"
    outcome = launch(add(plain=plain), 10, 64, np.zeros(42, ml_dtypes.bfloat16))
    found = {event.rule for event in outcome.events}
    assert found == ({"memory/global-race"} if races else set())


def test_words_with_elements_of_another_size_stay_words() -> None:
    outcome = launch(add(mask=255), 2, 40, np.zeros(21, ml_dtypes.bfloat16))
    assert {event.message.split(" at ")[0] for event in outcome.events} == {"read of 4 bytes"}
