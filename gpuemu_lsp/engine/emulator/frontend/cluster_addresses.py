"""Accesses to the shared memory of a cluster (``.shared::cluster``), as generic ones.

An address of ``.shared::cluster`` names a block as well as a place in its memory. An instruction before the access
converts it to a generic address, so that one way of access, check and race detection serves all blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.opcodes import CLUSTER_ADDRESS, SEND
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Register, Symbol

_SHARED = "shared::cluster"
_ACCESSES = frozenset({"ld", "st", "atom", "red", "mbarrier"})
_WIDE = frozenset({"b64", "u64", "s64"})


def with_cluster_addresses(codes: list[list[Instruction]], registers: dict[str, str]) -> list[list[Instruction]]:
    """Return the instructions of each block with such accesses replaced; new registers are added to ``registers``."""
    if not any(_SHARED in one.modifiers for code in codes for one in code):
        return codes
    return [[new for one in code for new in _replaced(one, registers)] for code in codes]


def _replaced(instruction: Instruction, registers: dict[str, str]) -> Iterator[Instruction]:
    words = instruction.modifiers
    if _SHARED not in words:
        yield instruction
    elif instruction.opcode == "cvta":
        kind = "shared" if "to" in words else "generic"
        yield replace(instruction, opcode=CLUSTER_ADDRESS, modifiers=(kind, words[-1]))
    elif instruction.opcode == "isspacep":
        yield replace(instruction, opcode=CLUSTER_ADDRESS, modifiers=("inside", "u64"))
    elif instruction.opcode in ("st", "red") and words[0] == "async":
        yield replace(instruction, opcode=SEND, modifiers=(instruction.opcode, *words))
    elif instruction.opcode in _ACCESSES:
        yield from _generic(instruction, registers)
    else:
        yield instruction


def _generic(instruction: Instruction, registers: dict[str, str]) -> Iterator[Instruction]:
    operands = list(instruction.operands)
    index = next((place for place, one in enumerate(operands) if isinstance(one, Address)), None)
    if index is None:
        yield instruction
        return
    address = operands[index]
    assert isinstance(address, Address)
    base = address.base
    wide = isinstance(base, Register) and registers.get(base.name) in _WIDE
    kind = "u64" if wide or isinstance(base, Symbol) else "u32"
    host = Register(f"%v{len(registers)}")
    registers[host.name] = "b64"
    yield replace(instruction, opcode=CLUSTER_ADDRESS, modifiers=("generic", kind), operands=(host, base))
    operands[index] = Address(host, address.offset)
    words = tuple(word for word in instruction.modifiers if word != _SHARED)
    yield replace(instruction, modifiers=words, operands=tuple(operands))
