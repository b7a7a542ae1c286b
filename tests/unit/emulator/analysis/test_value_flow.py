"""Where loaded values go: comparisons, atomics, and copies in local memory."""

from __future__ import annotations

from support.ptx_programs import instructions, program

from gpuemu_lsp.engine.emulator.analysis.copies_only import is_only_copied
from gpuemu_lsp.engine.emulator.analysis.hoisted_loads import possibly_hoisted_loads
from gpuemu_lsp.engine.emulator.analysis.value_flow import DefinitionUses, ValueFlow
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction
from gpuemu_lsp.engine.ptx.parser import parse


def flow_of(kernel: Program) -> ValueFlow:
    return ValueFlow([one for block in kernel.blocks for one in block.code])


def load(kernel: Program) -> Instruction:
    return instructions(kernel, "ld")[0]


def test_a_flag_reaches_a_comparison() -> None:
    kernel = program("L: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L; ret;")
    assert flow_of(kernel).feeds_comparison(load(kernel), kernel.registers)


def test_data_that_is_stored_reaches_none() -> None:
    kernel = program("ld.volatile.global.u32 %r1, [%d1]; add.u32 %r2, %r1, 1; st.global.u32 [%d2], %r2; ret;")
    assert not flow_of(kernel).feeds_comparison(load(kernel), kernel.registers)


def test_values_flow_through_the_stack() -> None:
    kernel = program(
        "ld.global.u32 %r1, [%d1]; st.local.u32 [%d3+8], %r1; ld.local.u32 %r2, [%d3+8]; setp.eq.u32 %p1, %r2, 0; ret;"
    )
    assert flow_of(kernel).feeds_comparison(load(kernel), kernel.registers)


def test_equal_expressions_are_the_same_address() -> None:
    kernel = program(
        "ld.param.u64 %d1, [x]; shl.b64 %d4, %d2, 2; add.s64 %d5, %d1, %d4; ld.global.u32 %r1, [%d5+4]; "
        "shl.b64 %d6, %d2, 2; add.s64 %d7, %d1, %d6; ld.global.u32 %r2, [%d7+4]; ld.global.u32 %r3, [%d7+8]; ret;"
    )
    first, second, third = (one for one in instructions(kernel, "ld") if "param" not in one.modifiers)
    assert flow_of(kernel).same_address_as_any(first, [second])
    assert not flow_of(kernel).same_address_as_any(first, [third])


def test_a_shared_variable_is_one_address_by_name_and_by_register() -> None:
    kernel = program(".shared .b32 s; ld.shared.u32 %r1, [s]; mov.u64 %d1, s; ld.shared.u32 %r2, [%d1]; ret;")
    first, second = instructions(kernel, "ld")
    assert flow_of(kernel).same_address_as_any(first, [second])


def test_uses_end_where_the_register_is_defined_again() -> None:
    kernel = program(
        "ld.global.u32 %r1, [%d1]; add.u32 %r2, %r1, 1; @%p1 mov.u32 %r1, 5; add.u32 %r3, %r1, 1; mov.u32 %r1, %r3; "
        "st.global.u32 [%d1], %r1; ret;"
    )
    uses = DefinitionUses(kernel)
    assert [uses.instructions[site].name for site in uses.uses(0, "%r1")] == ["add.u32", "add.u32"]


def test_a_copied_base_register_is_the_same_address() -> None:
    kernel = program("mov.u64 %d2, %d1; ld.global.u32 %r1, [%d1+4]; ld.global.u32 %r2, [%d2+4]; ret;")
    first, second = instructions(kernel, "ld")
    assert flow_of(kernel).same_address_as_any(first, [second])
    assert not flow_of(kernel).same_address_as_any(first, [first])


COPY = ".local .align 8 .b8 l[64]; mov.u64 %d3, l; ld.local.u32 %r1, [%d3]; {} ret;"


def test_a_load_that_is_stored_to_local_memory_is_a_copy() -> None:
    kernel = program(COPY.format("mov.u32 %r2, %r1; st.local.u32 [%d3+8], %r2;"))
    assert is_only_copied(kernel, load(kernel))


def test_a_load_whose_value_a_shuffle_passes_is_a_copy() -> None:
    kernel = program(COPY.format("shfl.sync.idx.b32 %r2|%p1, %r1, 0, 31, -1; st.local.u32 [%d3+8], %r2;"))
    assert is_only_copied(kernel, load(kernel))


def test_a_load_whose_value_is_used_is_not() -> None:
    for use in (
        "shfl.sync.idx.b32 %r2, %r3, %r1, 31, -1;",
        "shfl.sync.idx.b32 %r2, %r1, %r1, 31, -1;",
        "add.u32 %r2, %r1, 1;",
        "st.global.u32 [%d1], %r1;",
        "setp.eq.u32 %p1, %r1, 0; @%p1 bra A; A:",
    ):
        kernel = program("ld.param.u64 %d1, [x]; " + COPY.format(use))
        (one,) = (found for found in instructions(kernel, "ld") if "local" in found.modifiers)
        assert not is_only_copied(kernel, one), use


def test_a_bit_field_replaces_a_part_of_a_word() -> None:
    kernel = program(COPY.format("and.b32 %r2, %r1, -16; or.b32 %r3, %r2, 5; st.local.u32 [%d3], %r3;"))
    assert is_only_copied(kernel, load(kernel))


def hoisted(body: str) -> list[int]:
    text = (
        '.version 8.6\n.target sm_80\n.address_size 64\n.file 1 "k.cu"\n.visible .entry k()\n{\n'
        f".reg .pred %p<9>; .reg .b32 %r<9>;\n{body}\n}}\n"
    )
    return sorted(line for _, line in possibly_hoisted_loads(parse(text).functions.values()))


def test_a_selected_load_may_have_been_hoisted() -> None:
    assert hoisted(".loc 1 3 1\nld.shared.u32 %r1, [%r2];\nselp.u32 %r3, %r1, 0, %p1;\nret;") == [3]


def test_a_load_without_a_use_before_the_branch_may_have_been_hoisted() -> None:
    assert hoisted(".loc 1 4 1\nld.shared.u32 %r1, [%r2];\n@%p1 bra A;\nadd.u32 %r3, %r1, 1;\nA:\nret;") == [4]


def test_a_load_that_every_lane_uses_was_not_hoisted() -> None:
    assert hoisted(".loc 1 5 1\nld.shared.u32 %r1, [%r2];\nadd.u32 %r3, %r1, 1;\n@%p1 bra A;\nA:\nret;") == []


def test_global_loads_are_not_speculated() -> None:
    assert hoisted(".loc 1 6 1\nld.global.u32 %r1, [%r2];\nselp.u32 %r3, %r1, 0, %p1;\nret;") == []


def test_uses_before_the_definition_are_reached_through_the_loop() -> None:
    kernel = program(
        "L: add.u32 %r2, %r1, 1; mov.u32 %r3, %r1; mov.u32 %r1, 7; add.u32 %r4, %r1, 2; setp.eq.u32 %p1, %r4, %r5; "
        "@%p1 bra L; bra M; M: mov.u32 %r6, %r1; @%p2 bra L; ret;"
    )
    uses = DefinitionUses(kernel)
    (site,) = (at for at, one in uses.instructions.items() if one.operands[1] == Immediate(7, "int"))
    found = sorted(uses.uses(site, "%r1"))
    assert [uses.instructions[at].name for at in found] == ["add.u32", "mov.u32", "add.u32", "mov.u32"]
    assert [at < site for at in found] == [True, True, False, False]
