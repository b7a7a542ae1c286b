"""Registers wider than their operand, and the size of code that is emitted in place."""

from __future__ import annotations

import pytest
from llvmlite import binding, ir
from support.instruction_launch import parse

from gpuemu_lsp.engine.emulator import ops

_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))


def _folded(value: int, register: ir.Type, type_: str, result: ir.Type) -> int:
    """Return a register's bits, read as ``type_`` and written to a register of type ``result``, folded by LLVM."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(result, []), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    place = builder.alloca(register)
    builder.store(ir.Constant(ir.IntType(register.width), value), place)
    read = ops.read_as(builder, builder.load(place), type_)
    assert read.type == ops.llvm_type(type_)
    builder.ret(ops.write_as(builder, read, type_, result))
    parsed = binding.parse_assembly(str(module))
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(parsed, passes)
    text = next(line for line in str(parsed).splitlines() if "ret " in line)
    return int(text.split()[-1]) & ((1 << result.width) - 1)


@pytest.mark.parametrize(
    ("register", "type_", "result", "value", "expected"),
    [
        (_I32, "s8", _I32, 0x123456F0, 0xFFFFFFF0),
        (_I32, "u8", _I32, 0x123456F0, 0xF0),
        (_I32, "b16", _I64, 0x8000, 0x8000),
        (_I32, "s16", _I64, 0x8000, 0xFFFFFFFFFFFF8000),
        (_I32, "f16", _I32, 0xFFFF3C00, 0x3C00),
        (_I32, "bf16", _I32, 0xFFFF3F80, 0x3F80),
        (_I32, "f32", _I64, 0xBF800000, 0xBF800000),
        (_I64, "f32", _I32, 0x1_3F800000, 0x3F800000),
        (_I32, "e4m3x2", _I16, 0x5678, 0x5678),
    ],
)
def test_wider_registers(register: ir.Type, type_: str, result: ir.Type, value: int, expected: int) -> None:
    assert _folded(value, register, type_, result) == expected


@pytest.mark.parametrize("count", [None, 8, 16])
def test_long_code_is_one_function_per_module(count: int | None) -> None:
    module = ir.Module()
    kind = ops.llvm_type("f32", count)
    function = ir.Function(module, ir.FunctionType(kind, [kind]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    value = function.args[0]
    for _ in range(10):
        (value,) = ops.emit(builder, parse("ex2.approx.ftz.f32 d, a"), [value])
    builder.ret(value)
    assert len(builder.block.instructions) == 11
    binding.parse_assembly(str(module)).verify()


def test_division_by_a_literal_and_of_a_literal_differ() -> None:
    module = ir.Module()
    kind = ops.llvm_type("s32", 8)
    function = ir.Function(module, ir.FunctionType(kind, [kind]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    seven = ir.Constant(kind, [7] * 8)
    (first,) = ops.emit(builder, parse("rem.s32 d, 7, a"), [seven, function.args[0]])
    (second,) = ops.emit(builder, parse("rem.s32 d, a, 7"), [function.args[0], seven])
    assert "call" in str(first)
    assert "srem" in str(second)
