"""Address conversion: ``cvta`` between generic addresses and those of a state space, and ``isspacep``."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import local_frames, shared_window
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, Value, i64
from gpuemu_lsp.engine.ptx.model import Instruction, Register

_SPACES = frozenset({"global", "shared", "local", "const", "param"})


def supported(instruction: Instruction) -> bool:
    """Return whether this is a supported address conversion."""
    if instruction.opcode == "cvta":
        return memory_space(instruction) in _SPACES and not any("cluster" in m for m in instruction.modifiers)
    return instruction.opcode == "isspacep" and instruction.modifiers[0].split("::")[0] in _SPACES


def emit_conversion(e: Emitter, instruction: Instruction) -> None:
    """Write a ``cvta`` or ``isspacep``."""
    if instruction.opcode == "cvta":
        _convert_address(e, instruction)
    else:
        _is_space(e, instruction)


def _each_part(e: Emitter, name: str, value: Callable[[int, bool], Value], type_: str) -> None:
    """Write a result in the shape of its register: ``value(part, vector)`` returns a vector or a base."""
    shape = e.unit.divergence.shapes[name]
    for part in e.result_parts(name):
        e.write(name, part, value(part, shape.varying), type_)


def _convert_address(e: Emitter, instruction: Instruction) -> None:
    """Write a ``cvta`` (PTX ISA section 9.7.9.20).

    A generic address is a host address. Addresses of shared and local memory count from the start of their window;
    those of the other spaces are generic addresses already.
    """
    target, source = instruction.operands
    assert isinstance(target, Register)
    space = memory_space(instruction)
    to_space = "to" in instruction.modifiers
    type_ = instruction.modifiers[-1]
    b = e.builder
    combine = b.sub if to_space else b.add

    # Affine addresses stay affine: a window has one start for all lanes, and local frames a constant distance.
    def value(part: int, vector: bool) -> Value:
        shape = e.unit.divergence.shapes[target.name]
        if vector:
            address = e.vector_operand(source, type_, part)
        else:
            address = e.scalar_operand_for(source, type_, part, e.parts if shape.per_part else 1)
        # A 32-bit source address is zero-extended.
        if address.type not in (I64, ir.VectorType(I64, e.lanes)):
            address = b.zext(address, ir.VectorType(I64, e.lanes) if vector else I64)
        if space == "param" and not to_space:
            return _parameter_address(e, address, vector)
        if space == "shared":
            window = shared_window(e)
            return combine(address, t.splat(b, window, e.lanes) if vector else window)
        if space == "local":
            if vector:
                return combine(address, local_frames(e, part))
            # The affine shape of the result has the frame size as stride: only the base of lane 0 is converted.
            frame = e.unit.program.local_bytes
            base = e.record_field("local", "context", Warp.LOCAL)
            if shape.per_part and part:
                base = b.add(base, i64(part * e.lanes * max(frame, 1)))
            return combine(address, base)
        return address

    _each_part(e, target.name, value, "b64")


def _parameter_address(e: Emitter, address: Value, vector: bool) -> Value:
    """Return the host address of a parameter of which only the low 32 bits may be given.

    Addresses in .param space may be 32 bits wide (PTX ISA section 6.4.1), but the parameters are at host addresses.
    Their distance to the first one fits in 32 bits.
    """
    b = e.builder
    start = e.launch(LaunchRecord.PARAMS)
    low = i64(0xFFFF_FFFF)
    if vector:
        start, low = t.splat(b, start, e.lanes), t.splat(b, low, e.lanes)
    return b.add(start, b.and_(b.sub(address, start), low))


def _is_space(e: Emitter, instruction: Instruction) -> None:
    """Write an ``isspacep`` (PTX ISA section 9.7.9.21)."""
    target, source = instruction.operands
    assert isinstance(target, Register)
    space = instruction.modifiers[0].split("::")[0]
    b = e.builder

    def within(address: Value, low: Value, size: Value, vector: bool) -> Value:
        if vector:
            low, size = t.splat(b, low, e.lanes), t.splat(b, size, e.lanes)
        # One unsigned comparison: below the range the difference wraps to a large number.
        return b.icmp_unsigned("<", b.sub(address, low), size)

    def value(part: int, vector: bool) -> Value:
        shape = e.unit.divergence.shapes[target.name]
        parts = e.parts if shape.per_part else 1
        address = e.vector_operand(source, "b64", part) if vector else e.scalar_operand_for(source, "b64", part, parts)
        in_shared = within(address, shared_window(e), e.launch(LaunchRecord.SHARED_SIZE), vector)
        local_low, local_size = e.launch(LaunchRecord.LOCAL), e.launch(LaunchRecord.LOCAL_SIZE)
        in_local = within(address, local_low, local_size, vector)
        if space == "shared":
            return in_shared
        if space == "local":
            return in_local
        constants = within(address, e.launch(LaunchRecord.CONST_LOW), e.launch(LaunchRecord.CONST_SIZE), vector)
        if space == "const":
            return constants
        if space == "param":
            return within(address, e.launch(LaunchRecord.PARAMS), e.launch(LaunchRecord.PARAMS_SIZE), vector)
        # Global is what remains: buffers and variables have no single range.
        return b.not_(b.or_(b.or_(in_shared, in_local), constants))

    _each_part(e, target.name, value, "pred")
