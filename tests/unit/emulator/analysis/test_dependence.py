"""Sources on which accesses, barriers and collectives depend."""

from __future__ import annotations

import pytest
from support.emulator_launch import ptx_kernel

from gpuemu_lsp.engine.emulator.analysis.dependence.compared import only_compared, special_inputs
from gpuemu_lsp.engine.emulator.analysis.dependence.kernel import (
    NO_PARAMETER,
    Dependence,
    KernelDependences,
    dependences,
)
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import (
    MemoryContents,
    OtherSource,
    ParameterValue,
    Source,
    VariableContents,
)

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


def with_file(text: str) -> KernelDependences:
    head, entry, kernel = text.partition(".visible .entry")
    return dependences(f'{head}.file 1 "k.cu"\n{entry}{kernel}', "k")


def is_content(source: Source) -> bool:
    return isinstance(source, MemoryContents | VariableContents)


def by_line(
    unknown: frozenset[Source] = frozenset(), compared: bool = False, body: str = ROW
) -> dict[tuple[int, int], bool]:
    accesses = with_file(ptx_kernel("row col n:u32", body)).accesses

    def is_independent(dependence: Dependence) -> bool:
        return not dependence.may_differ(lambda one: is_content(one) or one in unknown, compared=compared)

    return {
        (location.line, number): all(map(is_independent, by_opcode.values()))
        for (location, number), by_opcode in accesses.items()
    }


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
    assert not any(by_line(frozenset({ParameterValue(2)})).values())


def test_addresses_alone_decide_where_comparisons_do_not_count() -> None:
    """A loaded index is one in any case; of the loop only its number of iterations is loaded."""
    assert [key for key, known in by_line(compared=True).items() if not known] == [(3, 1)]


def test_barriers_collectives_and_writes_that_values_decide() -> None:
    barrier, lanes = "bar.sync 0;", "shfl.sync.idx.b32 %r6, %r2, 0, 31, -1;"
    for instruction in (barrier, lanes):
        for place, independent in (("AFTER:", True), ("  add.u32 %r3, %r3, 1;", False)):
            found = with_file(ptx_kernel("row col n:u32", ROW.replace(place, f"{place} {instruction}")))
            assert found.synchronization.may_differ(is_content) != independent, (instruction, place)
            assert {number: one.may_differ(is_content) for number, one in found.writes.items()} == {
                0: True,
                NO_PARAMETER: False,
            }


def test_an_index_whose_register_becomes_a_counter_is_not_open_before_that() -> None:
    code = ROW.replace("  .loc 1 1 0", "  .loc 1 7 0\n  st.global.u32 [%d4], %r1;\n  .loc 1 1 0", 1)
    code = code.replace("  bra LOOP;", "  add.u32 %r2, %r2, 1;\n  mul.wide.u32 %d3, %r2, 4;\n  bra LOOP;")
    lines = {line: independent for (line, _), independent in by_line(body=code).items()}
    # The address of line 6 is computed from the counter.
    assert lines == {7: True, 1: True, 2: True, 3: False, 4: False, 5: True, 6: False}


def test_an_access_names_the_sources_of_its_address_and_those_that_decide_whether_it_is_made() -> None:
    found = with_file(ptx_kernel("row col n:u32", ROW))
    by_number = {location.line: location for location, _ in found.accesses}
    inner = found.of(by_number[3], "ld.global.u32", [1])
    # What is loaded from `col` is stored in `row`, which holds the bounds.
    addresses = {ParameterValue(0), ParameterValue(1), MemoryContents(0), MemoryContents(1)}
    assert inner == Dependence(frozenset(addresses), frozenset({ParameterValue(2)}))
    # Of an access that the kernel does not have, nothing is known.
    assert found.of(by_number[3], "ld.global.u32", [0]).address == {OtherSource.RECURSION}


def test_the_launch_and_members_of_a_struct_are_sources() -> None:
    body = """
      .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<2>;
      ld.param.v2.u64 {%d1, %d2}, [s+8];
      mov.u32 %r1, %nctaid.x;
      mov.u32 %r2, %ntid.y;
      mul.wide.u32 %d3, %r1, 4;
      add.s64 %d4, %d1, %d3;
      .loc 1 1 0
      st.global.u32 [%d4], %r2;
      .loc 1 2 0
      ld.global.f32 %f1, [%d2];
      cvt.rzi.s32.f32 %r3, %f1;
      mul.wide.s32 %d5, %r3, 4;
      mul.wide.u32 %d6, %r2, 4;
      add.s64 %d5, %d5, %d6;
      add.s64 %d5, %d1, %d5;
      .loc 1 3 0
      ld.global.u32 %r4, [%d5];
      ret;"""
    text = ptx_kernel("n:u32 s:u64", body).replace(".param .u64 s", ".param .align 8 .b8 s[24]")
    found = with_file(text)
    by_number = {location.line: by_opcode for (location, _), by_opcode in found.accesses.items()}
    pointer = ParameterValue(1, 8)
    assert by_number[1]["st"].address == {pointer, OtherSource.GRID}
    assert by_number[2]["ld"].address == {ParameterValue(1, 16)}
    assert by_number[3]["ld"].address == {
        pointer,
        ParameterValue(1, 16),
        MemoryContents(1, 16),
        OtherSource.FLOAT_INDEX,
        OtherSource.BLOCK,
    }


def test_values_that_reach_an_address_through_memory_are_not_only_compared() -> None:
    """The flags are compared with 3; what ``index`` holds is stored in shared memory, whose contents are an index."""
    body = """
      .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;
      .shared .align 4 .b8 tile[128];
      ld.param.u64 %d1, [flags];
      ld.param.u64 %d2, [index];
      ld.param.u64 %d3, [values];
      ld.global.u32 %r1, [%d1];
      setp.ne.u32 %p1, %r1, 3;
      @%p1 bra DONE;
      ld.global.u32 %r2, [%d2];
      mov.u64 %d4, tile;
      st.shared.u32 [%d4], %r2;
      ld.shared.u32 %r3, [%d4];
      mul.wide.u32 %d5, %r3, 4;
      add.s64 %d6, %d3, %d5;
      ld.global.u32 %r4, [%d6];
    DONE:
      ret;"""
    assert only_compared(ptx_kernel("flags index values", body), "k", [0, 1, 2]) == {
        0: frozenset({3}),
        2: frozenset(),
    }


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("abs.f32 %f3, %f2; setp.eq.f32 %p1, %f3, 0f7F800000;", {0}),
        ("setp.neu.f32 %p1, %f2, %f2;", {0}),
        ("setp.nan.f32 %p1, %f2, %f2;", {0}),
        ("testp.infinite.f32 %p1, %f2;", {0}),
        ("setp.gt.f32 %p1, %f2, %f1;", set()),
        ("setp.gt.f32 %p1, %f2, 0f7149F2CA;", set()),
    ],
)
def test_inputs_that_a_kernel_tests_for_nan_and_infinity(test: str, found: set[int]) -> None:
    """What is tested was doubled and in shared memory before."""
    body = f"""
      .reg .pred %p<3>; .reg .f32 %f<9>; .reg .b64 %d<9>;
      .shared .align 4 .b8 tile[128];
      ld.param.u64 %d1, [x];
      ld.param.u64 %d2, [bias];
      ld.global.f32 %f0, [%d1];
      add.f32 %f0, %f0, %f0;
      mov.u64 %d3, tile;
      st.shared.f32 [%d3], %f0;
      ld.shared.f32 %f2, [%d3];
      ld.global.f32 %f1, [%d2];
      {test}
      @%p1 st.global.f32 [%d2], %f1;
      ret;"""
    assert special_inputs(ptx_kernel("x bias", body), "k", [0, 1]) == found


WAIT = """
  .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<20>;
  ld.param.u64 %d1, [flag];
  ld.param.u64 %d2, [other];
  ld.param.u32 %r1, [n];
  ld.param.u32 %r2, [limit];
  mov.u32 %r3, %tid.x;
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra DONE;
  mov.u32 %r4, 0;
LOOP:
  .loc 1 1 0
  ld.volatile.global.u32 %r5, [%d1];
  setp.ne.u32 %p2, %r5, 0;
  @%p2 bra COUNT;
  bra LOOP;
COUNT:
  .loc 1 2 0
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p3, %r4, %r2;
  @%p3 bra COUNT;
  STORE
DONE:
  ret;"""


def leaving(line: int, store: str = "") -> frozenset[Source]:
    """Return what decides whether the loop at a line is left."""
    found = with_file(ptx_kernel("flag other n:u32 limit:u32", WAIT.replace("STORE", store)))
    locations = {location.line: location for one in found.loops for location in one.locations}
    return found.leaving(locations.get(line))


def test_a_loop_is_left_by_what_its_own_conditions_are_computed_from() -> None:
    """A size that decides which threads reach the loop is not among them."""
    assert leaving(1) == {ParameterValue(0), MemoryContents(0), OtherSource.AWAITED}
    assert leaving(2) == {ParameterValue(3)}
    assert leaving(9) == {OtherSource.RECURSION}


def test_a_place_in_no_loop_is_that_of_a_loop_without_an_end() -> None:
    """Its instructions may have no location of their own."""
    body = WAIT.replace("@%p2 bra COUNT;", "").replace(".loc 1 1 0", "").replace("STORE", "")
    found = with_file(ptx_kernel("flag other n:u32 limit:u32", body))
    assert found.leaving(None) == frozenset()


def test_what_the_kernel_stores_decides_about_a_loop_that_waits_for_it() -> None:
    assert leaving(1, "st.global.u32 [%d1], %r2;") == leaving(1) | {ParameterValue(3)}
    assert leaving(1, "st.global.u32 [%d2], %r2;") == leaving(1)


def test_an_atomic_operation_returns_what_its_memory_holds() -> None:
    """A ticket is known as far as the counter is, and what is added to it: here a number that the program loads."""
    body = """
      .reg .b32 %r<9>; .reg .b64 %d<9>;
      ld.param.u64 %d1, [counter];
      ld.param.u64 %d2, [out];
      ld.param.u64 %d3, [steps];
      STEP
      atom.global.add.u32 %r2, [%d1], %r1;
      mul.wide.u32 %d4, %r2, 4;
      add.s64 %d5, %d2, %d4;
      .loc 1 1 0
      st.global.u32 [%d5], %r2;
      ret;"""
    for step, more in (
        ("mov.u32 %r1, 1;", set()),
        ("ld.global.u32 %r1, [%d3];", {ParameterValue(2), MemoryContents(2)}),
    ):
        found = with_file(ptx_kernel("counter out steps", body.replace("STEP", step)))
        ((location, _),) = [place for place in found.accesses if place[0].line == 1]
        sources = found.of(location, "st.global.u32", [1]).address
        assert sources == {ParameterValue(0), ParameterValue(1), MemoryContents(0), OtherSource.AWAITED, *more}
