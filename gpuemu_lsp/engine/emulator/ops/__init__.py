"""Elementwise PTX instructions as LLVM IR, for scalars and for vectors of lanes alike.

An instruction is *elementwise* if each lane's result depends on that lane's operands only: arithmetic, comparison,
conversion, bit manipulation, ``mov``. Masks, memory, control flow and communication between lanes are not known here.
Nothing in this package can trap, so it may be applied to lanes that are switched off.

- ``supports``: whether a typed opcode is implemented exactly as written. A modifier that is not understood is never
  ignored: the instruction is unsupported.
- ``operand_types``: the PTX types with which operands are read and written.
- ``emit``: builds the code.
- ``accuracy``: None if the manual defines the result to the bit, else the error that it allows.

==============  =====================================================================================================
module          content
==============  =====================================================================================================
``form``        typed opcode being resolved (``OpcodeForm``), and what it resolves to (``Operation``)
``resolve``     table of all families, by opcode
``emission``    code in place, or once per module where it is long
``lanes``       IR builder for scalars and vectors
``types``       PTX types, the LLVM types that hold them, reading and writing registers of another width
``ieee``        flushing, saturation, NaNs, rounding between formats, rounding to odd
``rounding``    arithmetic in the directed rounding modes
families        ``integer division bits logic simd`` (integers), ``floating_point approx`` (floats), ``compare``,
                ``convert pack`` (``cvt``), ``move``
==============  =====================================================================================================

Each family has a table ``RESOLVERS``: opcode -> function that takes an ``OpcodeForm`` apart and returns an
``Operation``, or None if there is no such instruction. To add an instruction, add a resolver, its rows in the test of
its family, and a line in ``tests/support/instruction_table.py``.
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
    """Return None if the manual defines the result to the bit, else the error that it allows, such as ``2 ulp``.

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
        Positioned where the code is to be built; helper functions and intrinsics are added to its module.
    sources
        One value per source of ``operand_types``, of the LLVM type that ``llvm_type`` gives; all are scalars or all
        are vectors of the same number of lanes. Negated predicates are negated already. Any bit pattern is valid.
    target
        Features of the CPU that the code will run on; the host's by default.

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
