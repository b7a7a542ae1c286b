"""Parameters and variables that addresses derive from."""

from __future__ import annotations

from support.ptx_programs import instructions, program

from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, pointer_parameters, roots

BODY = """
  .shared .align 4 .b8 s[64];
  ld.param.u64 %d1, [x];
  ld.param.u64 %d2, [y];
  ld.param.u32 %r1, [n];
  mul.wide.u32 %d3, %r1, 4;
  add.s64 %d4, %d1, %d3;
  ld.global.u64 %d5, [%d2];
  add.s64 %d6, %d5, %d3;
  ld.global.u32 %r2, [%d4];
  mul.wide.u32 %d7, %r2, 4;
  add.s64 %d8, %d1, %d7;
  setp.eq.u32 %p1, %r1, 0;
  selp.b64 %d9, %d1, %d2, %p1;
  mov.u64 %d10, s;
  st.global.u32 [%d9], %r1;
  ret;"""


def test_origins() -> None:
    found = origins(program(BODY))
    assert found["%d4"] == {"x+0"}
    assert found["%d5"] == found["%d6"] == {UNKNOWN}
    assert found["%d9"] == {"x+0", "y+0"}
    assert found["%d10"] == {"s"}
    # 32 bits cannot hold an address.
    assert not found.get("%d3")


def test_an_index_that_is_loaded_does_not_hide_the_buffer() -> None:
    assert origins(program(BODY))["%d8"] == {"x+0"}


def test_the_parameter_of_a_pointer() -> None:
    found = pointer_parameters(program(BODY))
    assert found["%d4"] == found["%d8"] == 0
    assert found["%d2"] == 1
    assert "%d9" not in found and "%d6" not in found


def test_roots_of_an_address() -> None:
    kernel = program(BODY)
    known = origins(kernel)
    (store,) = instructions(kernel, "st")
    assert roots(store.operands[0], known) == {"x+0", "y+0"}
    assert roots(None, known) == {UNKNOWN}
