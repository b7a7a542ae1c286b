"""LLVM types of PTX registers, in SSA values and in memory; immediates and undefined registers as constants."""

from __future__ import annotations

import struct

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.memory import POISON
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, Value
from gpuemu_lsp.engine.ptx.model import Immediate


def register_type(ptx: str) -> ir.Type:
    """Return the LLVM type of one lane of a register of PTX type ``ptx``."""
    if ptx in ("f32", "f64"):
        return ops.llvm_type(ptx)
    if ptx == "pred":
        return I1
    # Half floats are their bits: PTX moves them as .b16, and the host computes on them widened.
    return ir.IntType({"f16x2": 32, "bf16x2": 32, "tf32": 32}.get(ptx) or int(ptx.lstrip("busfe")))


def memory_type(type_: ir.Type) -> ir.Type:
    """Return the type in which a value is saved: an i1 as a byte, a vector of i1 as an integer with a bit per lane."""
    if type_ == I1:
        return I8
    if isinstance(type_, ir.VectorType) and type_.element == I1:
        return ir.IntType(type_.count)
    return type_


def part_stride(type_: ir.Type) -> int:
    """Return the distance in bytes between the parts of a saved register of memory type ``type_``."""
    if not isinstance(type_, ir.VectorType):
        return 8
    element = type_.element
    width = element.width if isinstance(element, ir.IntType) else {"float": 32, "double": 64}[str(element)]
    return int(width // 8 * type_.count)


def literal(operand: Immediate, type_: str) -> Value:
    """Return an immediate operand as a constant of PTX type ``type_`` (PTX ISA section 4.5)."""
    target = ops.llvm_type(type_)
    bits = operand.bits
    # A 0f literal may initialise an f64 and a 0d literal an f32: the value is converted, not the bits.
    if operand.kind == "f32" and type_ == "f64":
        bits = _repacked(bits, "<I", "<f", "<d", "<Q")
    elif operand.kind == "f64" and type_ == "f32":
        bits = _repacked(bits, "<Q", "<d", "<f", "<I")
    if isinstance(target, ir.IntType):
        return ir.Constant(target, bits & ((1 << target.width) - 1))
    # A bitcast integer: llvmlite formats float constants from Python floats, which may not keep the payload of a NaN.
    width = {"half": 16, "float": 32, "double": 64}[str(target)]
    return ir.Constant(ir.IntType(width), bits & ((1 << width) - 1)).bitcast(target)


def poison_value(type_: ir.Type) -> Value:
    """Return the initial value of a register that may be read before it is written.

    Large in magnitude, so that it shows in results; of alternating sign over the lanes of a vector, since a maximum (or
    minimum) would hide values of one sign.
    """
    scalar = type_.element if isinstance(type_, ir.VectorType) else type_
    width = scalar.width if isinstance(scalar, ir.IntType) else {"float": 32, "double": 64}[str(scalar)]
    negative = bytes([POISON]) * (width // 8 or 1)
    positive = negative[:-1] + bytes([POISON & 0x7F])
    form = {"float": "<f", "double": "<d"}.get(str(scalar))
    values = [struct.unpack(form, one)[0] if form else int.from_bytes(one, "little") for one in (positive, negative)]
    if isinstance(type_, ir.VectorType):
        return ir.Constant(type_, values * (type_.count // 2))
    return ir.Constant(type_, values[0])


def _repacked(bits: int, take: str, as_: str, to: str, give: str) -> int:
    number = struct.unpack(as_, struct.pack(take, bits))[0]
    try:
        packed = struct.pack(to, number)
    except OverflowError:
        # Python refuses what IEEE 754 rounds to an infinity.
        packed = struct.pack(to, float("inf") if number > 0 else float("-inf"))
    return int(struct.unpack(give, packed)[0])
