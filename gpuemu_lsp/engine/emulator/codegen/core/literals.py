"""The LLVM types registers are kept and saved in, and immediate operands as constants."""

from __future__ import annotations

import struct

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.memory import POISON
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, Value
from gpuemu_lsp.engine.ptx.model import Immediate


def register_type(ptx: str) -> ir.Type:
    """Return the LLVM type that one lane of a register of PTX type ``ptx`` is kept in: half floats as their bits."""
    if ptx in ("f32", "f64"):
        return ops.llvm_type(ptx)
    if ptx == "pred":
        return I1
    return ir.IntType({"f16x2": 32, "bf16x2": 32, "tf32": 32}.get(ptx) or int(ptx.lstrip("busfe")))


def stored(type_: ir.Type) -> ir.Type:
    """Return the type a value is saved in: a predicate as a byte, a vector of them as bits."""
    if type_ == I1:
        return I8
    if isinstance(type_, ir.VectorType) and type_.element == I1:
        return ir.IntType(type_.count)
    return type_


def stride(type_: ir.Type) -> int:
    """Return how far apart the parts of a saved register lie."""
    if not isinstance(type_, ir.VectorType):
        return 8
    element = type_.element
    width = element.width if isinstance(element, ir.IntType) else {"float": 32, "double": 64}[str(element)]
    return int(width // 8 * type_.count)


def literal(operand: Immediate, type_: str) -> Value:
    """Return an immediate operand as a constant of PTX type ``type_`` (PTX ISA section 4.5)."""
    target = ops.llvm_type(type_)
    bits = operand.bits
    if operand.kind == "f32" and type_ == "f64":
        bits = _repacked(bits, "<I", "<f", "<d", "<Q")
    elif operand.kind == "f64" and type_ == "f32":
        bits = _repacked(bits, "<Q", "<d", "<f", "<I")
    if isinstance(target, ir.IntType):
        return ir.Constant(target, bits & ((1 << target.width) - 1))
    width = {"half": 16, "float": 32, "double": 64}[str(target)]
    return ir.Constant(ir.IntType(width), bits & ((1 << width) - 1)).bitcast(target)


def unset(type_: ir.Type) -> Value:
    """Return what a register holds before anything is written to it: a number that is neither zero nor like others.

    Large, so that the numbers show it; in every other lane of a vector negative, as a maximum or a minimum alone would
    hide one of the two.
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
        packed = struct.pack(to, float("inf") if number > 0 else float("-inf"))
    return int(struct.unpack(give, packed)[0])
