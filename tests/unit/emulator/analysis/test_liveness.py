"""Live registers at block boundaries."""

from __future__ import annotations

from support.ptx_programs import block_with, graph

from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness, liveness
from gpuemu_lsp.engine.emulator.ir.program import Program


def live(body: str) -> tuple[Program, Liveness]:
    program, cfg = graph(body)
    return program, liveness(program, cfg)


def test_a_register_is_live_between_definition_and_last_use() -> None:
    program, found = live("""
      ld.global.u32 %r1, [%d1];
      setp.eq.u32 %p1, %r1, 0;
      @%p1 bra DONE;
      add.u32 %r2, %r1, 1;
      st.global.u32 [%d1], %r2;
    DONE:
      ret;""")
    store = block_with(program, "st")
    assert set(found.registers(found.live_in[0])) == {"%d1"}
    assert set(found.registers(found.live_in[store])) == {"%r1", "%d1"}
    assert not found.live_out[store]
    assert set(found.registers(found.defined[store])) == {"%r2"}


def test_a_guarded_definition_does_not_kill() -> None:
    _, found = live("setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r2, 1; st.global.u32 [%d1], %r2; ret;")
    assert "%r2" in found.registers(found.live_in[0])


def test_an_unguarded_definition_kills() -> None:
    _, found = live("mov.u32 %r2, 1; st.global.u32 [%d1], %r2; ret;")
    assert "%r2" not in found.registers(found.live_in[0])


def test_loop_carried_registers_are_live_around_the_loop() -> None:
    program, cfg = graph("""
      mov.u32 %r1, 0; mov.u32 %r2, 5;
    HEAD:
      add.u32 %r1, %r1, %r2;
      setp.lt.u32 %p1, %r1, 100;
      @%p1 bra HEAD;
      st.global.u32 [%d1], %r1;
      ret;""")
    found = liveness(program, cfg)
    ((latch, header),) = cfg.back_edges
    assert {"%r1", "%r2"} <= set(found.registers(found.live_out[latch]) + found.registers(found.live_in[header]))
    assert "%r2" not in found.registers(found.live_in[block_with(program, "st")])


def test_the_guard_of_a_branch_is_a_use() -> None:
    _, found = live("@%p1 bra A; mov.u32 %r1, 1; A: ret;")
    assert found.registers(found.live_in[0]) == ["%p1"]


def test_special_registers_are_never_live() -> None:
    _, found = live("mov.u32 %r1, %tid.x; st.global.u32 [%d1], %r1; ret;")
    assert found.registers(found.live_in[0]) == ["%d1"]
