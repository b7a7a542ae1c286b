"""Definitions and uses of instructions, and accesses to shared and global memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.ptx_programs import instructions, program

from gpuemu_lsp.engine.emulator.ir.accesses import memory_accesses
from gpuemu_lsp.engine.emulator.ir.operands import CARRY, registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.ptx.model import Register

CASES = {
    "add.u32 %r1, %r2, 3;": (["%r1"], ["%r2"]),
    "@!%p1 mov.u32 %r1, %r2;": (["%r1"], ["%r2", "%p1"]),
    "ld.global.v2.b32 {%r1, %r2}, [%d1+8];": (["%r1", "%r2"], ["%d1"]),
    "st.global.u32 [%d1], %r2;": ([], ["%d1", "%r2"]),
    "atom.global.add.u32 %r1, [%d1], %r2;": (["%r1"], ["%d1", "%r2"]),
    "red.global.add.u32 [%d1], %r2;": ([], ["%d1", "%r2"]),
    "setp.lt.and.u32 %p1|%p2, %r1, %r2, !%p3;": (["%p1", "%p2"], ["%r1", "%r2", "%p3"]),
    "shfl.sync.idx.b32 _|%p1, %r1, 0, 31, -1;": (["%p1"], ["%r1"]),
    "add.cc.u32 %r1, %r2, %r3;": (["%r1", CARRY], ["%r2", "%r3"]),
    "addc.u32 %r1, %r2, %r3;": (["%r1"], ["%r2", "%r3", CARRY]),
    "mov.b64 {%r1, %r2}, %d1;": (["%r1", "%r2"], ["%d1"]),
    "cp.async.ca.shared.global [%r1], [%d1], 16;": ([], ["%r1", "%d1"]),
    "mbarrier.arrive.shared.b64 %d1, [%r1];": (["%d1"], ["%r1"]),
    "mbarrier.init.shared.b64 [%r1], %r2;": ([], ["%r1", "%r2"]),
}


@pytest.mark.parametrize("text", CASES)
def test_definitions_and_uses(text: str) -> None:
    written, read = CASES[text]
    kernel = program(f"{text} ret;")
    (one,) = (instruction for block in kernel.blocks for instruction in block.code)
    assert list(registers_written(one)) == written
    assert list(registers_read(one)) == read


def test_uses_of_terminators() -> None:
    kernel = program("@%p1 bra A; bar.sync %r1, %r2; A: ret;")
    assert {name for block in kernel.blocks for name in terminator_reads(block)} == {"%p1", "%r1", "%r2"}


def test_accesses() -> None:
    kernel = program("""
      ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1];
      st.shared.u8 [%r1], %r2;
      ld.local.u32 %r3, [%d2];
      ld.u64 %d3, [%d1];
      cp.async.cg.shared.global [%r1], [%d1], 16;
      mbarrier.test_wait.shared.b64 %p1, [%r1], %d4;
      ret;""")
    found = [(one.space, one.is_write, one.size) for one in memory_accesses(kernel)]
    assert found == [
        ("global", False, 16),
        ("shared", True, 1),
        ("generic", False, 8),
        ("shared", True, 16),
        ("global", False, 16),
        ("shared", True, 8),
    ]
    assert [one.is_copy_source for one in memory_accesses(kernel)] == [False, False, False, False, True, False]


def test_sites_count_instructions_and_terminators() -> None:
    kernel = program("ld.global.u32 %r1, [%d1]; bar.sync 0; st.global.u32 [%d1], %r1; ret;")
    first, second = (one.site for one in memory_accesses(kernel))
    between = kernel.blocks[
        : next(n for n, block in enumerate(kernel.blocks) if instructions(kernel, "st")[0] in block.code)
    ]
    assert first == 0
    assert second == sum(len(block.code) + 1 for block in between)


def test_an_instruction_with_other_operands_has_other_registers() -> None:
    (one,) = instructions(program("add.u32 %r1, %r2, 3; ret;"), "add")
    assert registers_read(one) == ("%r2",)
    other = replace(one, operands=(*one.operands[:2], Register("%r7")))
    assert registers_read(other) == ("%r2", "%r7") and other != one
    assert replace(one) == one
