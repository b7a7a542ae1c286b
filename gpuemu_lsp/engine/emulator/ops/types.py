"""PTX operand types and the LLVM types that hold them (PTX ISA sections 5.2 and 9.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

I1, I8, I16, I32, I64, I128 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64, 128))
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()

INTEGERS = {f"{kind}{bits}": bits for kind in "sub" for bits in (8, 16, 32, 64)} | {"b128": 128}
"""Width in bits of every integer and untyped-bits type."""

PACKED = {"f16x2": "f16", "bf16x2": "bf16", "s16x2": "s16", "u16x2": "u16"}
"""Packed types, two 16-bit values in one 32-bit register, with the type of each half."""

_LLVM: dict[str, ir.Type] = {
    **{name: ir.IntType(bits) for name, bits in INTEGERS.items()},
    **dict.fromkeys(PACKED, I32),
    "pred": I1,
    "f16": HALF,
    # Not LLVM's bfloat: its x86 conversion (vcvtneps2bf16) flushes subnormals, which PTX keeps.
    "bf16": I16,
    "f32": FLOAT,
    "f32x2": I64,
    "tf32": I32,
    "f64": DOUBLE,
    "e4m3x2": I16,
    "e5m2x2": I16,
}


@dataclass(frozen=True, slots=True)
class Signature:
    """The PTX types of an instruction's operands.

    Vectors ``{a, b}`` and pairs ``p|q`` count as one entry per element, in source order. An instruction that reads or
    writes the condition code (``addc``, ``add.cc``; PTX ISA section 9.7.2) has one more source or destination at the
    end, of type ``pred``: the carry-out of the adder, also for a subtraction, which has no operand in the text.
    """

    destinations: tuple[str, ...]
    sources: tuple[str, ...]
    reads_carry: bool = False
    writes_carry: bool = False


def llvm_type(name: str, count: int | None = None) -> ir.Type:
    """Return the LLVM type holding PTX type ``name``: a scalar, or a vector of ``count`` lanes.

    Raises
    ------
    KeyError
        If ``name`` is not an operand type.
    """
    scalar = _LLVM[name]
    return scalar if count is None else ir.VectorType(scalar, count)


def read_as(builder: ir.IRBuilder, value: Any, name: str) -> Any:
    """Return a register's value as operand type ``name``: bits reinterpreted, a wider register truncated (9.4.1).

    Raises
    ------
    TypeError
        If the register is narrower than the operand, as PTX does not allow.
    """
    target = _LLVM[name]
    scalar, shape = _scalar_and_shape(value.type)
    if scalar == target:
        return value
    bits = _bits(scalar)
    wanted = _bits(target)
    if bits < wanted:
        raise TypeError(f"an operand of {wanted} bits from a register of {bits}")
    if not isinstance(scalar, ir.IntType):
        value = builder.bitcast(value, shape(ir.IntType(bits)))
    if bits > wanted:
        value = builder.trunc(value, shape(ir.IntType(wanted)))
    if isinstance(target, ir.IntType):
        return value
    return builder.bitcast(value, shape(target))


def write_as(builder: ir.IRBuilder, value: Any, name: str, register: ir.Type) -> Any:
    """Return a result of type ``name`` as the value of a register whose scalar LLVM type is ``register``.

    In a wider register signed results are sign-extended and all others zero-extended (section 9.4.1, table 27).

    Raises
    ------
    TypeError
        If the register is narrower than the result, as PTX does not allow.
    """
    scalar, shape = _scalar_and_shape(value.type)
    if scalar == register:
        return value
    bits = _bits(scalar)
    wanted = _bits(register)
    if bits > wanted:
        raise TypeError(f"a result of {bits} bits for a register of {wanted}")
    if not isinstance(scalar, ir.IntType):
        value = builder.bitcast(value, shape(ir.IntType(bits)))
    if bits < wanted:
        extend = builder.sext if name.startswith("s") else builder.zext
        value = extend(value, shape(ir.IntType(wanted)))
    if isinstance(register, ir.IntType):
        return value
    return builder.bitcast(value, shape(register))


def _scalar_and_shape(type_: ir.Type) -> tuple[ir.Type, Any]:
    if isinstance(type_, ir.VectorType):
        return type_.element, lambda scalar: ir.VectorType(scalar, type_.count)
    return type_, lambda scalar: scalar


def _bits(scalar: ir.Type) -> int:
    if isinstance(scalar, ir.IntType):
        return int(scalar.width)
    return {HALF: 16, FLOAT: 32, DOUBLE: 64}[scalar]
