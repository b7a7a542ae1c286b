"""What every elementwise PTX instruction computes, as LLVM IR, for scalars and vectors alike.

Knows nothing of masks, memory or control flow. ``supports`` says whether a typed opcode is implemented exactly as
written (a modifier nobody knows is never ignored), ``operand_types`` with which types its operands are read and
written, ``emit`` builds the code, ``accuracy`` says whether the result is exact.

Each family of opcodes has a module with a table ``RESOLVERS``: base opcode -> function that takes a ``Form`` apart and
returns its ``Operation``.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.ops.emission import emit_key
from gpuemu_lsp.engine.emulator.ops.form import Operation
from gpuemu_lsp.engine.emulator.ops.lanes import TargetFeatures, Value, host
from gpuemu_lsp.engine.emulator.ops.resolve import key_of, resolve
from gpuemu_lsp.engine.emulator.ops.types import Signature, llvm_type, read_as, write_as
from gpuemu_lsp.engine.ptx.model import Instruction

__all__ = [
    "Signature",
    "TargetFeatures",
    "accuracy",
    "emit",
    "host",
    "llvm_type",
    "operand_types",
    "read_as",
    "supports",
    "write_as",
]


def supports(instruction: Instruction) -> bool:
    """Return whether this exact typed opcode, with these operands, is implemented."""
    return resolve(key_of(instruction)) is not None


def operand_types(instruction: Instruction) -> Signature:
    """Return the PTX type of each destination and source.

    Raises
    ------
    ValueError
        If the instruction is not supported.
    """
    return _required(instruction).signature


def accuracy(instruction: Instruction) -> str | None:
    """Return None if the manual defines the result to the bit, else the error it allows, such as ``2 ulp``.

    Raises
    ------
    ValueError
        If the instruction is not supported.
    """
    return _required(instruction).accuracy


def emit(
    builder: ir.IRBuilder, instruction: Instruction, sources: Sequence[Value], target: TargetFeatures | None = None
) -> list[Value]:
    """Build the code of one instruction and return one value per destination.

    Parameters
    ----------
    builder
        Placed where the code belongs; helper functions and intrinsics are added to its module.
    sources
        One value per source of ``operand_types``, of the LLVM types ``llvm_type`` names, all scalars or all vectors of
        the same number of lanes; negated predicates already negated. Any bits are safe in any lane: nothing traps.
    target
        The machine the code will run on; this one by default.

    Raises
    ------
    ValueError
        If the instruction is not supported.
    """
    _required(instruction)
    return emit_key(builder, key_of(instruction), sources, target)


def _required(instruction: Instruction) -> Operation:
    found = resolve(key_of(instruction))
    if found is None:
        raise ValueError(f"no elementwise semantics for {instruction.name}")
    return found
