"""Flattening: functions inlined, call parameters resolved, variables placed, the unsupported trapped."""

from __future__ import annotations

import pytest
from support.ptx_programs import instructions, program

from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.opcodes import POP, PUSH
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Branch, Program, RecursiveCall, Return, Switch, Trap
from gpuemu_lsp.engine.ptx.parser import parse

SQUARE = """.func (.param .b32 result) square(.param .b32 a)
{
.reg .b32 %r<3>;
ld.param.u32 %r1, [a];
mul.lo.u32 %r2, %r1, %r1;
st.param.b32 [result], %r2;
ret;
}
"""
CALL = """{
.param .b32 a0;
.param .b32 r0;
st.param.b32 [a0], %r1;
call (r0), square, (a0);
ld.param.b32 %r2, [r0];
}"""


def traps(kernel: Program) -> list[Trap]:
    return [block.terminator for block in kernel.blocks if isinstance(block.terminator, Trap)]


def test_a_kernel_has_the_shared_variables_that_it_needs() -> None:
    # As in separately compiled modules, where all of them are outside of the kernels.
    outside = ".shared .align 4 .b8 own[4000];\n.shared .align 4 .b8 other[400000];\n"
    helper = ".func touch() { .reg .b32 %a; mov.u32 %a, own; ret; }\n"
    kernel = program("call touch, (); ret;", before=outside + helper)
    assert set(kernel.shared) == {"own"} and kernel.dynamic_shared < 10_000


def test_two_calls_have_registers_of_their_own() -> None:
    kernel = program(f"{CALL} {CALL} ret;", before=SQUARE)
    first, second = instructions(kernel, "mul")
    assert first.operands[0] != second.operands[0]
    assert not instructions(kernel, "call") and not traps(kernel)
    # Parameters are registers: no memory is accessed.
    assert not instructions(kernel, "ld") and not instructions(kernel, "st")
    assert not kernel.local_bytes


def test_a_parameter_that_is_read_with_another_size_lies_in_local_memory() -> None:
    halves = SQUARE.replace("ld.param.u32 %r1, [a];", "ld.param.u16 %r1, [a];")
    kernel = program(f"{CALL} ret;", before=halves)
    assert [one.modifiers[0] for one in instructions(kernel, "ld")] == ["local"]
    assert kernel.local_bytes


def test_recursive_functions_share_one_body() -> None:
    recursive = SQUARE.replace("ret;", CALL.replace("%r2", "%r1") + "ret;")
    kernel = program(f"{CALL} ret;", before=recursive)
    assert kernel.recursive
    calls = [block.terminator for block in kernel.blocks if isinstance(block.terminator, RecursiveCall)]
    assert len(calls) == 2 and len({one.callee for one in calls}) == 1
    assert any(isinstance(block.terminator, Return) for block in kernel.blocks)
    assert len(instructions(kernel, PUSH)) == len(instructions(kernel, POP)) == 2
    assert len(instructions(kernel, "mul")) == 1


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("trap; ret;", "sync/trap"),
        ("call unknown; ret;", "engine/unsupported-instruction"),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1}, %r4, 0; ret;",
         "engine/unsupported-instruction"),
    ],
)  # fmt: skip
def test_traps(body: str, rule: str) -> None:
    (trap,) = traps(program(body))
    assert trap.rule == rule


def test_guarded_terminators_become_branches() -> None:
    kernel = program("@%p1 exit; @%p2 bar.sync 0; ret;")
    assert [type(block.terminator) for block in kernel.blocks].count(Branch) == 2
    assert any(isinstance(block.terminator, BarrierSync) for block in kernel.blocks)


def test_a_branch_table_becomes_a_switch() -> None:
    kernel = program("T: .branchtargets A, B; brx.idx %r1, T; A: mov.u32 %r2, 1; B: ret;")
    (switch,) = (block.terminator for block in kernel.blocks if isinstance(block.terminator, Switch))
    assert len(switch.targets) == 2


def test_collectives_come_first_in_their_block() -> None:
    kernel = program("add.u32 %r1, %r2, 1; shfl.sync.idx.b32 %r3, %r1, 0, 31, -1; ret;")
    (block,) = (block for block in kernel.blocks if any(one.opcode == "shfl" for one in block.code))
    assert block.code[0].opcode == "shfl"


def test_shared_variables_have_gaps_and_dynamic_memory_follows() -> None:
    kernel = program(".shared .align 4 .b8 a[12]; .shared .align 16 .b8 b[64]; ret;")
    a, b = kernel.shared["a"], kernel.shared["b"]
    assert a.offset == 0 and b.offset >= a.size + 128 and b.offset % 16 == 0
    assert kernel.dynamic_shared >= b.offset + b.size


def test_vector_atomics_are_split() -> None:
    kernel = program("atom.global.add.v2.f32 {%f1, %f2}, [%d1], {%f2, %f3}; ret;")
    first, second = instructions(kernel, "atom")
    assert second.operands[1].offset == first.operands[1].offset + 4
    # %f2 is the second result and the first addend: it must be read before it is overwritten.
    assert second.operands[2].name == "%f3" and first.operands[2].name == "%f2"


def test_cache_hints_are_dropped() -> None:
    kernel = program(
        "createpolicy.fractional.L2::evict_last.b64 %d3, 1.0; ld.global.L2::cache_hint.f32 %f1, [%d1], %d3; ret;"
    )
    (load,) = instructions(kernel, "ld")
    assert "L2::cache_hint" not in load.modifiers and len(load.operands) == 2
    assert not instructions(kernel, "createpolicy")


def test_only_kernels_can_be_flattened() -> None:
    with pytest.raises(KeyError):
        flatten(parse(".version 8.6\n.target sm_80\n.address_size 64\n" + SQUARE), "square")
