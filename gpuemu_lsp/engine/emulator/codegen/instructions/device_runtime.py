"""Calls of device runtime functions (printf, assert, malloc, free): arguments in scratch space, and a callback."""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_lanes, load_pointer, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, i32
from gpuemu_lsp.engine.ptx.model import Instruction, Register, Symbol, Vector

FUNCTIONS: Final = {"vprintf": 0, "__assertfail": 1, "malloc": 2, "free": 3}
"""Numbers of the functions, as the callback takes them."""

ROWS: Final = (Warp.ADDRESSES, *(Warp.VALUES.element(row * WARP_SIZE) for row in range(4)))
"""Rows of the scratch space for arguments, 32 i64 each; the result is returned in the first one."""


def emit_call(e: Emitter, instruction: Instruction) -> None:
    """Write a call of one of :data:`FUNCTIONS`."""
    returns, callee, arguments = instruction.operands[:3]
    assert isinstance(callee, Symbol) and isinstance(arguments, Vector) and isinstance(returns, Vector)
    b = e.builder
    registers = e.unit.program.registers
    for row, argument in zip(ROWS, arguments.elements, strict=False):
        assert isinstance(argument, Symbol)
        name = f"{argument.name}+0"
        for part in range(e.parts):
            vector = ir.VectorType(I64, e.lanes)
            # A parameter variable that is never written has no register. All others are passed as 64 bits.
            value = ir.Constant(vector, None)
            if name in registers:
                type_ = registers[name]
                value = e.vector_operand(Register(name), type_, part)
                value = b.zext(value, vector) if type_ != "b64" else value
            store_lanes(b, value, e.context, row.element(part * e.lanes))
    # Into Python, for all active lanes at once: these functions allocate, or write to the host.
    callback = load_pointer(b, load_pointer(b, e.context, Warp.LAUNCH), LaunchRecord.CALLBACK)
    t.call_pointer(b, t.VOID, callback, [e.context, i32(e.site), e.active_mask(), i32(FUNCTIONS[callee.name])])
    # Registers named NAME+0 hold call parameters, which the front end has turned from variables into registers.
    for result in returns.elements:
        assert isinstance(result, Symbol)
        name = f"{result.name}+0"
        if name in registers:
            for part in e.result_parts(name):
                value = load_lanes(b, e.context, ROWS[0].element(part * e.lanes), e.lanes)
                if registers[name] != "b64":
                    value = b.trunc(value, ir.VectorType(e.register_type(name), e.lanes))
                e.write(name, part, value, registers[name])
