"""Resolution of a typed opcode to its operation, by the tables of all families."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from gpuemu_lsp.engine.emulator.ops import (
    approx,
    bits,
    compare,
    convert,
    division,
    floating_point,
    integer,
    logic,
    move,
    pack,
    simd,
)
from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Pair, Vector

_RESOLVERS: dict[str, tuple[Resolver, ...]] = {}
for _family in (approx, bits, compare, convert, division, floating_point, integer, logic, move, pack, simd):
    for _opcode, _resolver in _family.RESOLVERS.items():
        _RESOLVERS[_opcode] = (*_RESOLVERS.get(_opcode, ()), _resolver)

_BY_VALUE = frozenset({"div", "lop3", "prmt", "rem", "shl", "shr"})
"""Opcodes whose code depends on the value of a literal operand."""


class OperationKey(NamedTuple):
    """Everything that an instruction's code depends on, which is all but the names of its registers."""

    opcode: str
    modifiers: tuple[str, ...]
    shape: tuple[int, ...]
    immediates: tuple[int | None, ...]


def key_of(instruction: Instruction) -> OperationKey:
    """Return the key of an instruction."""
    operands = instruction.operands
    immediates: tuple[int | None, ...] = (None,) * len(operands)
    if instruction.opcode in _BY_VALUE:
        immediates = tuple([o.bits if isinstance(o, Immediate) and o.kind == "int" else None for o in operands])
    # The types are compared, which no class derives from: this runs three times for each instruction.
    shape = tuple([1 if (kind := type(o)) is not Vector and kind is not Pair else _elements(o) for o in operands])
    return OperationKey(instruction.opcode, instruction.modifiers, shape, immediates)


@lru_cache(maxsize=8192)
def resolve(key: OperationKey) -> Operation | None:
    """Return the operation of a typed opcode with operands of a given shape, None if PTX or this package has none."""
    # Families share opcodes (``add``, ``cvt``); at most one accepts the types.
    for resolver in _RESOLVERS.get(key.opcode, ()):
        found = resolver(OpcodeForm(*key))
        if found is not None:
            signature = found.signature
            # The carry flag is an operand of the operation, but not of the text.
            written = len(signature.destinations) - signature.writes_carry
            read = len(signature.sources) - signature.reads_carry
            return found if written + read == sum(key.shape) else None
    return None


def _elements(operand: Operand) -> int:
    if isinstance(operand, Vector):
        return len(operand.elements)
    return 2 if isinstance(operand, Pair) else 1
