"""Parameters of which two neighbouring elements are the bounds of a loop, or are compared."""

from __future__ import annotations

import pytest
from support.emulator_launch import ptx_kernel

from gpuemu_lsp.engine.emulator.analysis.dependence.neighbouring_elements import compared_neighbours, row_bounds

LOOP = """
      .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;
      ld.param.u64 %d1, [rows];
      ld.param.u64 %d2, [values];
      add.s64 %d3, %d1, {more};
      ld.global.{kind} %r1, [%d1+{first}];
      ld.global.{kind} %r2, [%d3+{second}];
    NEXT:
      setp.ge.s32 %p1, %r1, {end};
      @%p1 bra DONE;
      mul.wide.s32 %d4, %r1, 4;
      add.s64 %d5, %d2, %d4;
      ld.global.u32 %r3, [%d5];
      ld.global.u32 %r4, [%d5+4];
      add.s32 %r1, %r1, 1;
      bra NEXT;
    DONE:
      ret;"""


@pytest.mark.parametrize(
    ("more", "first", "second", "end", "found"),
    [
        (0, 0, 4, "%r2", {0}),
        (4, 0, 0, "%r2", {0}),
        (8, 4, -8, "%r2", {0}),
        (0, 0, 8, "%r2", set()),
        (0, 0, 0, "%r2", set()),
        (0, 0, 4, "9", {0}),
    ],
)
def test_two_elements_that_a_loop_runs_between(more, first, second, end, found):
    body = LOOP.format(more=more, first=first, second=second, end=end, kind="u32")
    assert row_bounds(ptx_kernel("rows values", body), "k", [0, 1]) == found


def test_neighbouring_elements_that_bound_no_loop():
    body = LOOP.format(more=0, first=0, second=4, end="%r2", kind="u32").replace("bra NEXT;", "bra DONE;")
    assert row_bounds(ptx_kernel("rows values", body), "k", [0, 1]) == frozenset()


@pytest.mark.parametrize(
    ("second", "left", "right", "found"),
    [(4, "%r1", "%r2", {0}), (4, "%r1", "7", set()), (8, "%r1", "%r2", set())],
)
def test_neighbouring_elements_that_are_compared(second, left, right, found):
    body = f"""
      .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;
      ld.param.u64 %d1, [keys];
      ld.param.u64 %d2, [values];
      ld.global.u32 %r1, [%d1];
      ld.global.u32 %r2, [%d1+{second}];
      setp.eq.s32 %p1, {left}, {right};
      @%p1 bra DONE;
      st.global.u32 [%d2], %r1;
    DONE:
      ret;"""
    assert compared_neighbours(ptx_kernel("keys values", body), "k", [0, 1]) == found
