"""Control-flow graph: reconvergence points, and a numbering with which lanes reconverge there."""

from __future__ import annotations

import pytest
from support.emulator_launch import compile_ptx
from support.ptx_programs import block_with, graph
from support.random_programs import RandomProgram

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph, build_cfg
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.program import EXIT, BarrierSync, Jump, Program
from gpuemu_lsp.engine.ptx.parser import parse

IF_ELSE = """
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 8;
  @%p1 bra THEN;
  add.u32 %r2, %r1, 1;
  bra.uni JOIN;
THEN:
  sub.u32 %r2, %r1, 1;
JOIN:
  st.global.u32 [%d1], %r2;
  ret;"""

LOOP_WITH_CONTINUE = """
  mov.u32 %r1, %tid.x;
HEAD:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  add.u32 %r2, %r2, 1;
  and.b32 %r3, %r2, 1;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra HEAD;
  xor.b32 %r4, %r4, %r2;
  bra.uni HEAD;
DONE:
  st.global.u32 [%d1], %r4;
  ret;"""

TWO_ENTRIES = """
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 8;
  @%p1 bra MIDDLE;
HEAD:
  add.u32 %r2, %r2, 1;
MIDDLE:
  sub.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, %r2;
  @%p2 bra HEAD;
  ret;"""


def test_reconvergence_point_of_a_conditional_is_the_join() -> None:
    program, cfg = graph(IF_ELSE)
    join = block_with(program, "st")
    assert cfg.reconvergence_point[0] == join
    assert cfg.successors[0] and set(cfg.successors[0]) == {block_with(program, "add"), block_with(program, "sub")}
    assert cfg.reconvergence_point[join] == len(program.blocks)
    assert cfg.reducible and not cfg.back_edges


def test_reconvergence_point_of_a_loop_exit_is_after_the_loop() -> None:
    program, cfg = graph(LOOP_WITH_CONTINUE)
    after = block_with(program, "st")
    ((latch, header),) = cfg.back_edges
    assert cfg.reconvergence_point[header] == after
    # Lanes that take different paths through the body reconverge at the latch, before the next iteration.
    assert cfg.reconvergence_point[block_with(program, "add")] == latch
    assert isinstance(program.blocks[latch].terminator, Jump)
    assert latch + 1 == after


def test_irreducible_control_flow_is_found() -> None:
    assert not graph(TWO_ENTRIES)[1].reducible


def test_a_branch_with_an_exit_has_no_reconvergence_point() -> None:
    program, cfg = graph("mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 9; @%p1 ret; st.global.u32 [%d1], %r1; ret;")
    assert EXIT in program.blocks[0].targets
    assert cfg.reconvergence_point[0] == len(program.blocks)


def test_empty_blocks_are_threaded_and_chains_merged() -> None:
    program, _ = graph("bra.uni A; A: bra.uni B; B: mov.u32 %r1, 1; bra.uni C; C: mov.u32 %r2, 2; ret;")
    assert len(program.blocks) == 1


def test_unreachable_blocks_are_removed() -> None:
    program, _ = graph("ret; A: mov.u32 %r1, 1; bra.uni A;")
    assert len(program.blocks) == 1 and not program.blocks[0].code


def test_a_barrier_keeps_a_block_of_its_own() -> None:
    program, _ = graph("mov.u32 %r1, 1; bar.sync 0; mov.u32 %r2, 2; ret;")
    (barrier,) = (block for block in program.blocks if isinstance(block.terminator, BarrierSync))
    assert not barrier.code and len(program.blocks) == 3


def check_numbering(program: Program, cfg: ControlFlowGraph) -> None:
    """Check the three properties that make lanes reconverge (docstring of the module)."""
    count = len(program.blocks)
    for number in range(count):
        point = cfg.reconvergence_point[number]
        seen: set[int] = set()
        work = [target for target in cfg.successors[number] if target != point]
        while work:
            block = work.pop()
            if block not in seen:
                seen.add(block)
                work += [target for target in cfg.successors[block] if target != point]
        assert point == count or all(block < point for block in seen)
    headers = [header for _, header in cfg.back_edges]
    assert len(headers) == len(set(headers))
    for latch, header in cfg.back_edges:
        body, work = {header}, [latch]
        while work:
            block = work.pop()
            if block not in body:
                body.add(block)
                work += cfg.predecessors[block]
        assert body == set(range(header, latch + 1))


@pytest.mark.parametrize("body", [IF_ELSE, LOOP_WITH_CONTINUE], ids=["if", "loop"])
def test_numbering(body: str) -> None:
    check_numbering(*graph(body))


@pytest.mark.parametrize("seed", range(8))
def test_numbering_of_random_programs(seed: int) -> None:
    program, cfg = build_cfg(flatten(parse(compile_ptx(RandomProgram(seed).source())), "k"))
    if not cfg.reducible:
        pytest.skip("irreducible: runs in the scalar-PC version")
    check_numbering(program, cfg)
