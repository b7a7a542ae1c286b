"""Accesses that do not depend on what memory holds."""

from __future__ import annotations

from support.emulator_launch import ptx_kernel

from gpuemu_lsp.engine.emulator.analysis.dependence.values import NO_PARAMETER, independent_accesses

# The loop over the entries of a row: its bounds are loaded, by a thread that a size selects.
ROW = """
  .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<20>;
  .shared .align 4 .b8 tile[128];
  ld.param.u64 %d1, [row];
  ld.param.u64 %d2, [col];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %d3, %r2, 4;
  add.s64 %d4, %d1, %d3;
  .loc 1 1 0
  ld.global.u32 %r3, [%d4];
  .loc 1 2 0
  ld.global.u32 %r4, [%d4+4];
LOOP:
  setp.ge.u32 %p2, %r3, %r4;
  @%p2 bra AFTER;
  mul.wide.u32 %d5, %r3, 4;
  add.s64 %d6, %d2, %d5;
  .loc 1 3 0
  ld.global.u32 %r5, [%d6];
  .loc 1 4 0
  st.global.u32 [%d4], %r2;
  add.u32 %r3, %r3, 1;
  bra LOOP;
AFTER:
  .loc 1 5 0
  st.global.u32 [%d4], %r5;
  mov.u64 %d7, tile;
  add.s64 %d8, %d7, %d3;
  .loc 1 6 0
  st.shared.u32 [%d8], %r5;
DONE:
  ret;"""


def by_line(unknown: tuple[int, ...] = (), compared: bool = False) -> dict[tuple[int, int], bool]:
    text = ptx_kernel("row col n:u32", ROW)
    head, entry, kernel = text.partition(".visible .entry")
    found = independent_accesses(f'{head}.file 1 "k.cu"\n{entry}{kernel}', "k", unknown, compared=compared)
    return {(location.line, number): all(known.values()) for (location, number), known in found.accesses.items()}


def test_loaded_bounds_decide_the_loop_but_not_what_follows_it() -> None:
    """A loaded index, and what a loop of loaded bounds executes, depend on values; code behind the loop does not."""
    assert by_line() == {
        (1, 0): True,
        (2, 0): True,
        (3, 1): False,
        (4, 0): False,
        (5, 0): True,
        (6, NO_PARAMETER): True,
    }


def test_a_number_that_the_program_does_not_show_is_open() -> None:
    """It guards everything here."""
    assert not any(by_line((2,)).values())


def test_addresses_alone_decide_where_comparisons_are_no_matter() -> None:
    """A loaded index is one in any case; of the loop only its number of iterations is loaded."""
    assert [key for key, known in by_line(compared=True).items() if not known] == [(3, 1)]


def test_barriers_collectives_and_writes_that_values_decide() -> None:
    barrier, lanes = "bar.sync 0;", "shfl.sync.idx.b32 %r6, %r2, 0, 31, -1;"
    for instruction in (barrier, lanes):
        for place, known in (("AFTER:", True), ("  add.u32 %r3, %r3, 1;", False)):
            text = ptx_kernel(
                "row col n:u32", ROW.replace(".reg .b32", ".reg .b32 ").replace(place, f"{place} {instruction}")
            )
            found = independent_accesses(text, "k", ())
            assert found.synchronization == known, (instruction, place)
            assert found.writes == {0: False, NO_PARAMETER: True}


def test_an_index_whose_register_becomes_a_counter_is_not_open_before_that() -> None:
    code = ROW.replace("  .loc 1 1 0", "  .loc 1 7 0\n  st.global.u32 [%d4], %r1;\n  .loc 1 1 0", 1)
    code = code.replace("  bra LOOP;", "  add.u32 %r2, %r2, 1;\n  mul.wide.u32 %d3, %r2, 4;\n  bra LOOP;")
    text = ptx_kernel("row col n:u32", code)
    head, entry, kernel = text.partition(".visible .entry")
    found = independent_accesses(f'{head}.file 1 "k.cu"\n{entry}{kernel}', "k", ())
    known = {location.line: all(one.values()) for (location, _), one in found.accesses.items()}
    # The address of line 6 is computed from the counter.
    assert known == {7: True, 1: True, 2: True, 3: False, 4: False, 5: True, 6: False}
