"""Values that follow from the thread index, enumerated per thread."""

from __future__ import annotations

import numpy as np
import pytest
from support.ptx_programs import block_with, instructions, program

from gpuemu_lsp.engine.emulator.analysis.thread_affine import PerThreadValues

BLOCK = (16, 4, 2)
LINEAR = np.arange(128)
X, Y, Z = LINEAR % 16, LINEAR // 16 % 4, LINEAR // 64

EXPRESSIONS = {
    "mov.u32 %r9, %r1;": X,
    "mad.lo.u32 %r9, %r2, %r4, %r1;": Y * 16 + X,
    "sub.u32 %r9, 5, %r1;": (5 - X) & 0xFFFFFFFF,
    "shr.u32 %r8, %r1, 2; xor.b32 %r9, %r8, %r1;": X >> 2 ^ X,
    "shl.b32 %r9, %r1, 33;": X * 0,
    "not.b32 %r9, %r1;": ~X & 0xFFFFFFFF,
    "div.u32 %r9, %r1, 3;": X // 3,
    "rem.u32 %r9, %r1, 3;": X % 3,
    "mul.hi.u32 %r9, %r1, -1431655765;": X * 0xAAAAAAAB >> 32,
    "not.b32 %r8, %r1; mul.hi.s32 %r9, %r8, 1431655766;": (~X * 1431655766 >> 32) & 0xFFFFFFFF,
    "min.u32 %r9, %r1, 7;": np.minimum(X, 7),
    "setp.lt.u32 %p1, %r1, 8; selp.b32 %r9, %r2, %r3, %p1;": np.where(X < 8, Y, Z),
    "neg.s32 %r8, %r1; shr.s32 %r9, %r8, 1;": (-X >> 1) & 0xFFFFFFFF,
}
UNKNOWN = {
    "loaded": "ld.global.u32 %r9, [%d1];",
    "of the block": "mov.u32 %r9, %ctaid.x;",
    "guarded": "setp.lt.u32 %p1, %r1, 8; @%p1 mov.u32 %r9, 1;",
    "defined twice": "mov.u32 %r9, 1; add.u32 %r9, %r1, 1;",
    "carried by a loop": "HEAD: add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 8; @%p1 bra HEAD;",
    "a division by zero": "div.u32 %r9, %r1, %r3;",
    "saturating": "add.sat.s32 %r9, %r1, 1;",
}
INDEX = "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x;"


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(text: str) -> None:
    found = PerThreadValues(program(f"{INDEX} {text} ret;"), BLOCK).value("%r9")
    assert found is not None
    np.testing.assert_array_equal(found, EXPRESSIONS[text])


@pytest.mark.parametrize("name", UNKNOWN)
def test_values_that_depend_on_more_are_unknown(name: str) -> None:
    assert PerThreadValues(program(f"{INDEX} {UNKNOWN[name]} ret;"), BLOCK).value("%r9") is None


def test_addresses_of_shared_variables() -> None:
    kernel = program(f".shared .b8 s[64]; .shared .b8 t[64]; {INDEX} ld.shared.u32 %r5, [t+8]; ret;")
    (load,) = instructions(kernel, "ld")
    found = PerThreadValues(kernel, BLOCK).address(load.operands[1])
    assert found is not None and set(found.tolist()) == {kernel.shared["t"].offset + 8}


def test_threads_that_reach_a_block() -> None:
    kernel = program(f"""
      {INDEX}
      setp.ge.u32 %p1, %r1, 4;
      @%p1 bra DONE;
      setp.eq.u32 %p2, %r2, 1;
      @%p2 st.global.u32 [%d1], %r1;
    DONE:
      ret;""")
    values = PerThreadValues(kernel, BLOCK)
    (store,) = instructions(kernel, "st")
    block = block_with(kernel, "st")
    np.testing.assert_array_equal(values.reaching(block), X < 4)
    np.testing.assert_array_equal(values.reaching(block, store.guard), (X < 4) & (Y == 1))
    assert values.reaching(0).all()


def test_an_unknown_branch_lets_all_threads_pass() -> None:
    kernel = program("ld.global.u32 %r1, [%d1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; membar.gl; A: ret;")
    assert PerThreadValues(kernel, BLOCK).reaching(block_with(kernel, "membar")).all()
