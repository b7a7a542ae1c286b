"""What every elementwise PTX instruction computes, as LLVM IR, for scalars and vectors alike.

Knows nothing of masks, memory or control flow. ``supports`` says whether a typed opcode is implemented exactly as
written (a modifier nobody knows is never ignored), ``operand_types`` with which types its operands are read and
written, ``emit`` builds the code, ``accuracy`` says whether the result is exact.

Each family of opcodes has a module with a table ``RESOLVERS``: base opcode -> function that takes a ``Form`` apart and
returns its ``Operation``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from llvmlite import ir

from gpuemu_lsp.engine.emulator.ops import (
    approx,
    bits,
    compare,
    convert,
    division,
    floating,
    integer,
    logic,
    move,
    pack,
)
from gpuemu_lsp.engine.emulator.ops.form import Form, Operation, Resolver
from gpuemu_lsp.engine.emulator.ops.lanes import Lanes, Target, Value, count_of, host
from gpuemu_lsp.engine.emulator.ops.types import Signature, llvm_type, read_as, write_as
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Pair, Vector

__all__ = [
    "Signature",
    "Target",
    "accuracy",
    "emit",
    "host",
    "llvm_type",
    "operand_types",
    "read_as",
    "supports",
    "write_as",
]

_FAMILIES = (approx, bits, compare, convert, division, floating, integer, logic, move, pack)
_RESOLVERS: dict[str, tuple[Resolver, ...]] = {}
for _family in _FAMILIES:
    for _opcode, _resolver in _family.RESOLVERS.items():
        _RESOLVERS[_opcode] = (*_RESOLVERS.get(_opcode, ()), _resolver)


def supports(instruction: Instruction) -> bool:
    """Return whether this exact typed opcode, with these operands, is implemented."""
    return _resolve(instruction) is not None


def operand_types(instruction: Instruction) -> Signature:
    """Return the PTX type of each destination and source.

    Raises
    ------
    ValueError
        If the instruction is not supported.
    """
    return _required(instruction).signature


def accuracy(instruction: Instruction) -> str | None:
    """Return None if the manual defines the result to the bit, else the error it allows, such as ``2^-22.5 relative``.

    Raises
    ------
    ValueError
        If the instruction is not supported.
    """
    return _required(instruction).accuracy


def emit(
    builder: ir.IRBuilder, instruction: Instruction, sources: Sequence[Value], target: Target | None = None
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
    count = count_of(sources[0])
    lanes = Lanes(builder, count, host() if target is None else target)
    return list(_required(instruction).emit(lanes, sources))


def _required(instruction: Instruction) -> Operation:
    found = _resolve(instruction)
    if found is None:
        raise ValueError(f"no elementwise semantics for {instruction.name}")
    return found


def _resolve(instruction: Instruction) -> Operation | None:
    if instruction.opcode not in _RESOLVERS:
        return None
    operands = instruction.operands
    immediates = tuple(o.bits if isinstance(o, Immediate) and o.kind == "int" else None for o in operands)
    return _operation(instruction.opcode, instruction.modifiers, tuple(map(_elements, operands)), immediates)


@lru_cache(maxsize=8192)
def _operation(
    opcode: str, modifiers: tuple[str, ...], shape: tuple[int, ...], immediates: tuple[int | None, ...]
) -> Operation | None:
    for resolver in _RESOLVERS[opcode]:
        found = resolver(Form(opcode, modifiers, shape, immediates))
        if found is not None:
            signature = found.signature
            written = len(signature.destinations) - signature.writes_carry
            read = len(signature.sources) - signature.reads_carry
            return found if written + read == sum(shape) else None
    return None


def _elements(operand: Operand) -> int:
    if isinstance(operand, Vector):
        return len(operand.elements)
    return 2 if isinstance(operand, Pair) else 1
