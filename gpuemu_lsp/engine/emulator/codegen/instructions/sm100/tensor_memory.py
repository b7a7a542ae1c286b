"""``tcgen05`` (PTX ISA section 9.7.16): operands in a buffer, one callback for each warp, results from there."""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import BulkOperation, call_back
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I8, I32, I64, Value, i64
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import TensorOperation, tensor_form, tensor_operands
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Negated, Operand, Register

VALUE_ROWS: Final = 10
"""Rows of the buffer for operands, of 64 bits for each lane; behind them are registers, of 32 bits for each lane."""

VALUE_BYTES: Final = 8 * WARP_SIZE
REGISTER_BYTES: Final = 4 * WARP_SIZE

_MOST_REGISTERS = 128
_BUFFER_BYTES = VALUE_ROWS * VALUE_BYTES + _MOST_REGISTERS * REGISTER_BYTES
_CHECKED_ONLY = frozenset(
    {
        TensorOperation.RELINQUISH,
        TensorOperation.WAIT_LOADS,
        TensorOperation.WAIT_STORES,
        TensorOperation.FENCE_BEFORE,
        TensorOperation.FENCE_AFTER,
    }
)
"""What changes no value here: only the checks of order follow it."""


def supported(instruction: Instruction) -> bool:
    """Return whether this is an operation on tensor memory that can be run."""
    return tensor_form(instruction) is not None


def emit_tensor_memory(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions."""
    form = tensor_form(instruction)
    assert form is not None
    if form.operation in _CHECKED_ONLY and not e.unit.checked:
        return
    b = e.builder
    operands = tensor_operands(instruction)
    # One buffer for all of these instructions of the function, in its stack frame.
    buffer = e.hoisted("tensor operands", lambda pre: t.aligned_alloca(pre, ir.ArrayType(I8, _BUFFER_BYTES)))
    for part in range(e.parts):
        for row, operand in enumerate(operands.values):
            t.store(b, _wide(e, operand, part), buffer, row * VALUE_BYTES + 8 * part * e.lanes, align=8)
        for row, operand in enumerate(operands.registers):
            value = e.vector_operand(operand, "b32", part)
            t.store(b, value, buffer, _register(row, e, part), align=4)
    t.store(b, b.ptrtoint(buffer, I64), e.context, Warp.ADDRESSES)
    call_back(e, BulkOperation.TENSOR_MEMORY)
    vector = ir.VectorType(I32, e.lanes)
    for row, operand in enumerate(operands.results):
        name = operand.name if isinstance(operand, Register) else "_"
        for part in e.result_parts(name):
            e.write(name, part, t.load(b, buffer, _register(row, e, part), vector, align=4), "b32")


def _register(row: int, e: Emitter, part: int) -> int:
    return VALUE_ROWS * VALUE_BYTES + row * REGISTER_BYTES + 4 * part * e.lanes


def _wide(e: Emitter, operand: Operand, part: int) -> Value:
    """Return an operand of any type as 64 bits in each lane."""
    if isinstance(operand, Immediate):
        return t.splat(e.builder, i64(operand.bits), e.lanes)
    if isinstance(operand, Negated):
        type_ = "pred"
    else:
        declared = e.unit.program.registers.get(operand.name, "b32") if isinstance(operand, Register) else "b32"
        type_ = declared if declared == "pred" else f"b{declared[1:]}"
    value = e.vector_operand(operand, type_, part)
    vector = ir.VectorType(I64, e.lanes)
    return value if value.type == vector else e.builder.zext(value, vector)
