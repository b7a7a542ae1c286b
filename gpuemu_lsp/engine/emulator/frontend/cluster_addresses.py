"""Accesses to the shared memory of a cluster (``.shared::cluster``), as generic ones.

An address of ``.shared::cluster`` names a block as well as a place in its memory. An instruction before the access
converts it to a generic address, so that one way of access, check and race detection serves all blocks.

On a GPU the address of a variable has the rank of its block from bit 24 on. Programs clear this bit to name the first
block of a pair to a bulk copy of both (``.cta_group::2``). Here such an address has no rank: the copy gets one that
:data:`~gpuemu_lsp.engine.emulator.devicelib.cluster.ClusterOperation.LEADER` computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.opcodes import CLUSTER_ADDRESS, SEND
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Register, Symbol

_SHARED = "shared::cluster"
_ACCESSES = frozenset({"ld", "st", "atom", "red", "mbarrier"})
_WIDE = frozenset({"b64", "u64", "s64"})
_PAIR = "cta_group::2"


def with_cluster_addresses(codes: list[list[Instruction]], registers: dict[str, str]) -> list[list[Instruction]]:
    """Return the instructions of each block with such accesses replaced; new registers are added to ``registers``."""
    if not any(_SHARED in one.modifiers for code in codes for one in code):
        return codes
    leaders = _without_rank(codes)
    return [[new for one in code for new in _replaced(one, registers, leaders)] for code in codes]


def _without_rank(codes: list[list[Instruction]]) -> frozenset[str]:
    """Return the registers of which the rank's last bit is cleared wherever they are written."""
    if not any(_PAIR in one.modifiers for code in codes for one in code):
        return frozenset()
    cleared: dict[str, bool] = {}
    for one in (one for code in codes for one in code):
        mask = one.operands[2] if one.opcode == "and" and len(one.operands) == 3 else None
        clears = isinstance(mask, Immediate) and mask.bits >> 24 & 0xFF == 0xFE
        for name in registers_written(one):
            cleared[name] = clears and cleared.get(name, True)
    return frozenset(name for name, clears in cleared.items() if clears)


def _replaced(instruction: Instruction, registers: dict[str, str], leaders: frozenset[str]) -> Iterator[Instruction]:
    words = instruction.modifiers
    if _SHARED not in words:
        yield instruction
    elif instruction.opcode == "cp" and _PAIR in words:
        yield from _named_leader(instruction, registers, leaders)
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


def _named_leader(
    instruction: Instruction, registers: dict[str, str], leaders: frozenset[str]
) -> Iterator[Instruction]:
    """Return a bulk copy that names the object of its pair's first block, if it has cleared the rank of the address."""
    operands = list(instruction.operands)
    barrier = operands[2] if len(operands) > 2 else None
    if isinstance(barrier, Address) and isinstance(barrier.base, Register) and barrier.base.name in leaders:
        first = Register(f"%v{len(registers)}")
        registers[first.name] = "b32"
        places = (first, barrier.base)
        yield replace(instruction, opcode=CLUSTER_ADDRESS, modifiers=("leader", "u32"), operands=places)
        operands[2] = Address(first, barrier.offset)
    yield replace(instruction, operands=tuple(operands))


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
