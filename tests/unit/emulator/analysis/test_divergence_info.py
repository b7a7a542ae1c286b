"""Classification of registers and blocks by divergence analysis."""

from __future__ import annotations

from support.ptx_programs import block_with, graph, instructions

from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo, all_divergent, analyse_divergence
from gpuemu_lsp.engine.emulator.analysis.liveness import liveness
from gpuemu_lsp.engine.emulator.ir.lattice import UNIFORM, VARYING, VectorShape, thread_block_shape
from gpuemu_lsp.engine.emulator.ir.program import Program


def analysed(
    body: str,
    block: tuple[int, int, int] = (64, 1, 1),
    speculated: frozenset[int] = frozenset(),
    pinned: tuple[str, ...] = (),
    frame_bytes: int = 1,
) -> tuple[Program, DivergenceInfo]:
    program, cfg = graph(body)
    shape = thread_block_shape(block, 16)
    live = liveness(program, cfg)
    return program, analyse_divergence(program, cfg, live, shape, frozenset(pinned), frame_bytes, speculated)


COUNTED_LOOP = """
  ld.param.u64 %d1, [x];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
HEAD:
  setp.ge.u32 %p1, %r2, {bound};
  @%p1 bra DONE;
  add.u32 %r2, %r2, 1;
  bra.uni HEAD;
DONE:
  st.global.u32 [%d1], %r2;
  ret;"""


def test_shapes_of_index_arithmetic() -> None:
    _, info = analysed("""
      ld.param.u64 %d1, [x];
      ld.param.u32 %r1, [n];
      mov.u32 %r2, %tid.x;
      shl.b32 %r3, %r2, 2;
      mad.lo.u32 %r4, %r1, 8, %r3;
      mul.wide.u32 %d2, %r2, 4;
      add.s64 %d3, %d1, %d2;
      ld.global.u32 %r5, [%d3];
      ld.global.u32 %r6, [%d1];
      xor.b32 %r7, %r2, 5;
      setp.lt.u32 %p1, %r2, 32;
      setp.lt.u32 %p2, %r2, 30;
      ret;""")
    assert info.shapes["%r1"] == UNIFORM
    assert info.shapes["%r2"] == VectorShape(step=1)
    assert info.shapes["%r4"] == VectorShape(step=4)
    assert info.shapes["%d3"] == VectorShape(step=4)
    assert info.shapes["%r5"] == VARYING
    assert info.shapes["%r6"] == UNIFORM
    assert info.shapes["%r7"] == VARYING
    assert info.shapes["%p1"] == UNIFORM
    assert info.shapes["%p2"] == VARYING


def test_a_uniform_branch_is_not_divergent() -> None:
    _, info = analysed(COUNTED_LOOP.format(bound="10"))
    assert info.reconverges
    assert not info.divergent and not info.partial and not info.divergent_loop_branches
    assert info.shapes["%r2"] == UNIFORM


def test_temporal_divergence() -> None:
    program, info = analysed(COUNTED_LOOP.format(bound="%r1"))
    after = block_with(program, "st")
    # Uniform in every iteration, but read after the loop by lanes that left in different ones.
    assert info.shapes["%r2"] == VARYING
    assert info.divergent == set(range(1, after))
    assert after not in info.partial
    assert info.divergent_loop_branches and info.reconverges


def test_a_value_that_is_not_read_after_the_loop_stays_uniform() -> None:
    body = COUNTED_LOOP.format(bound="%r1").replace("[%d1], %r2", "[%d1], %r1")
    assert analysed(body)[1].shapes["%r2"] == UNIFORM


def test_speculation_treats_a_loop_branch_as_uniform() -> None:
    _, info = analysed(COUNTED_LOOP.format(bound="%r1"))
    _, speculated = analysed(COUNTED_LOOP.format(bound="%r1"), speculated=info.divergent_loop_branches)
    assert speculated.shapes["%r2"] == UNIFORM
    assert not speculated.divergent


def test_a_register_written_on_both_sides_varies_after_the_join() -> None:
    program, info = analysed("""
      ld.param.u64 %d1, [x];
      mov.u32 %r1, %tid.x;
      setp.lt.u32 %p1, %r1, 7;
      @%p1 bra THEN;
      mov.u32 %r2, 3;
      mov.u32 %r3, 4;
      add.u32 %r4, %r3, 1;
      bra.uni JOIN;
    THEN:
      mov.u32 %r2, 5;
    JOIN:
      st.global.u32 [%d1], %r2;
      ret;""")
    assert info.shapes["%r2"] == VARYING
    # Not live into a block where other lanes wait.
    assert info.shapes["%r3"] == info.shapes["%r4"] == UNIFORM
    assert info.divergent == {1, 2}
    assert not info.divergent & {block_with(program, "st")}


def test_blocks_after_an_early_return_are_partial_but_converged() -> None:
    program, info = analysed("""
      ld.param.u64 %d1, [x];
      mov.u32 %r1, %tid.x;
      setp.gt.u32 %p1, %r1, 9;
      @%p1 ret;
      st.global.u32 [%d1], %r1;
      ret;""")
    assert not info.divergent
    assert info.partial == {block_with(program, "st")}


def test_every_block_is_partial_in_ragged_thread_blocks() -> None:
    program, info = analysed("mov.u32 %r1, %tid.x; ret;", (50, 1, 1))
    assert info.partial == set(range(len(program.blocks)))


def test_a_guarded_write_by_a_varying_predicate_varies() -> None:
    _, info = analysed("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 7; mov.u32 %r2, 1; @%p1 mov.u32 %r2, 2; ret;")
    assert info.shapes["%r2"] == VARYING


def test_local_addresses_are_a_frame_apart() -> None:
    _, info = analysed("cvta.local.u64 %d2, %d1; ret;", frame_bytes=48)
    assert info.shapes["%d2"] == VectorShape(step=48)


def test_pinned_registers_vary() -> None:
    _, info = analysed("mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 1; ret;", pinned=("%r1",))
    assert info.shapes["%r2"] == VARYING


def test_irreducible_control_flow_has_no_specialised_version() -> None:
    _, info = analysed("""
      mov.u32 %r1, %tid.x;
      setp.lt.u32 %p1, %r1, 8;
      @%p1 bra MIDDLE;
    HEAD:
      add.u32 %r2, %r2, 1;
    MIDDLE:
      sub.u32 %r3, %r3, 1;
      setp.lt.u32 %p2, %r3, %r2;
      @%p2 bra HEAD;
      ret;""")
    assert not info.reconverges


def test_assumptions_of_the_scalar_pc_version() -> None:
    program, _ = graph(COUNTED_LOOP.format(bound="10"))
    info = all_divergent(program)
    assert set(info.shapes.values()) == {VARYING}
    assert info.divergent == info.partial == set(range(len(program.blocks)))
    assert instructions(program, "st")
