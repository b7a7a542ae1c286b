"""Accesses of two threads to one address in shared memory."""

from __future__ import annotations

import pytest
from support.ptx_programs import program

from gpuemu_lsp.engine.emulator.analysis.address_conflicts import conflicting_accesses
from gpuemu_lsp.engine.emulator.analysis.thread_affine import PerThreadValues
from gpuemu_lsp.engine.emulator.ir.accesses import memory_accesses

HEAD = ".shared .align 16 .b8 s[4096]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; "
CASES = {
    "s[t]": ("mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;", 0),
    "s[0]": ("st.shared.u32 [%r2], %r1;", 1),
    "s[0] by one thread": ("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], %r1;", 0),
    "s[t / 2]": ("shr.u32 %r3, %r1, 1; mad.lo.u32 %r4, %r3, 4, %r2; st.shared.u32 [%r4], %r1;", 1),
    "s[t] and s[t + 1]": ("mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1; ld.shared.u32 %r4, [%r3+4];", 2),
    "s[t] read by all": ("mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1; ld.shared.u32 %r4, [%r2];", 2),
    "two reads": ("ld.shared.u32 %r4, [%r2]; ld.shared.u32 %r5, [%r2];", 0),
    "bytes of one word": ("add.u32 %r3, %r1, %r2; st.shared.u8 [%r3], %r1;", 0),
    "vectors that overlap": ("mad.lo.u32 %r3, %r1, 8, %r2; st.shared.v4.b32 [%r3], {%r1,%r1,%r1,%r1};", 1),
    "out of bounds": ("add.u32 %r3, %r2, 1000000; st.shared.u32 [%r3], %r1;", 0),
    "an unknown address": ("ld.global.u32 %r3, [%d1]; mad.lo.u32 %r4, %r1, 4, %r2; st.shared.u32 [%r3], %r1;", 1),
}


@pytest.mark.parametrize("name", CASES)
def test_conflicts(name: str) -> None:
    body, expected = CASES[name]
    kernel = program(f"{HEAD} {body} ret;")
    group = [access for access in memory_accesses(kernel) if access.space == "shared"]
    assert len(conflicting_accesses(group, PerThreadValues(kernel, (64, 1, 1)))) == expected
