"""Parameters of inlined calls: registers where possible, else local memory (PTX ISA section 5.1.6.2).

The scalar replacement of aggregates for ``.param`` variables. While a kernel is flattened, an access to a call's
parameter is an ``ld`` or ``st`` with ``call`` as its first modifier. If all accesses to a parameter agree on its parts
(offsets and sizes), each part is a register and each access a ``mov``; if not, the parameter becomes a local variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from gpuemu_lsp.engine.emulator.ir.opcodes import COPY, access_type, type_bytes, vector_length
from gpuemu_lsp.engine.emulator.ir.operands import CARRY
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Operand, Register, Symbol, Variable, Vector


def resolve_call_parameters(
    codes: list[list[Instruction]], declared: Mapping[str, str]
) -> tuple[dict[str, str], list[list[Instruction]], dict[str, Variable]]:
    """Replace accesses to call parameters by accesses to registers or local variables.

    ``codes`` are the instructions of each block, ``declared`` the registers and their types. Returns all registers, the
    new instructions, and the variables to place in local memory.
    """
    parts: dict[str, dict[int, int]] = {}
    # Parameters that are accessed with different sizes at one offset, or byte by byte: PTX has no 8-bit registers.
    mixed: set[str] = set()
    for code in codes:
        for instruction in code:
            if instruction.modifiers[:1] != ("call",):
                continue
            address = _call_address(instruction)
            size = type_bytes(access_type(instruction))
            name = address.base.name if isinstance(address.base, Symbol) else ""
            for index in range(vector_length(instruction)):
                offset = address.offset + index * size
                if parts.setdefault(name, {}).setdefault(offset, size) != size or size < 2:
                    mixed.add(name)
    # Parts that overlap without starting at the same offset.
    for name, sizes in parts.items():
        ordered = sorted(sizes.items())
        if any(offset + size > following for (offset, size), (following, _) in pairwise(ordered)):
            mixed.add(name)
    registers = dict(declared) | {CARRY: "pred"}
    for name, sizes in parts.items():
        if name not in mixed:
            registers.update({f"{name}+{offset}": f"b{size * 8}" for offset, size in sizes.items()})
    resolved = [[changed for old in code for changed in _resolved(old, mixed, parts)] for code in codes]
    slots = {
        name: Variable(name, "local", "b8", max(o + s for o, s in parts[name].items()), alignment=16) for name in mixed
    }
    return registers, resolved, slots


def _call_address(instruction: Instruction) -> Address:
    address = instruction.operands[0 if instruction.opcode == "st" else 1]
    assert isinstance(address, Address)
    return address


def _resolved(
    instruction: Instruction, mixed: set[str], parts: Mapping[str, Mapping[int, int]]
) -> Iterable[Instruction]:
    if instruction.opcode == COPY:
        yield from _copied(instruction, mixed, parts)
        return
    if instruction.modifiers[:1] != ("call",):
        yield instruction
        return
    address = _call_address(instruction)
    assert isinstance(address.base, Symbol)
    name = address.base.name
    if name in mixed:
        modifiers = tuple("local" if m.startswith("param") else m for m in instruction.modifiers[1:])
        yield replace(instruction, modifiers=modifiers)
        return
    store = instruction.opcode == "st"
    value = instruction.operands[1 if store else 0]
    values = value.elements if isinstance(value, Vector) else (value,)
    type_ = access_type(instruction)
    for index, one in enumerate(values):
        part = Register(f"{name}+{address.offset + index * type_bytes(type_)}")
        operands: tuple[Operand, ...] = (part, one) if store else (one, part)
        yield replace(instruction, opcode="mov", modifiers=(f"b{type_bytes(type_) * 8}",), operands=operands)


def _copied(instruction: Instruction, mixed: set[str], parts: Mapping[str, Mapping[int, int]]) -> Iterable[Instruction]:
    target, source = instruction.operands
    assert isinstance(target, Symbol) and isinstance(source, Symbol)
    read, written = parts.get(target.name, {}), parts.get(source.name, {})
    if {target.name, source.name} & mixed or any(written.get(offset) != size for offset, size in read.items()):
        # Parts do not correspond: the pseudo-instruction stays, and traps as unsupported if it is executed.
        yield instruction
        return
    for offset, size in read.items():
        operands = (Register(f"{target.name}+{offset}"), Register(f"{source.name}+{offset}"))
        yield replace(instruction, opcode="mov", modifiers=(f"b{size * 8}",), operands=operands)
