"""Sources: what is given to a launch, or to a thread by others, and decides what the thread does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, all_roots, roots
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, elements, registers_read
from gpuemu_lsp.engine.ptx.model import Instruction, Register, Symbol


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """The value of a parameter by number, or of the member at a byte offset of a struct."""

    parameter: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MemoryContents:
    """What the memory holds that a parameter, or the member at a byte offset of a struct, points to."""

    parameter: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class VariableContents:
    """What a variable of the module, or of shared or local memory, holds."""

    name: str


class OtherSource(Enum):
    """Sources that are not a parameter or its memory."""

    ANY_MEMORY = "memory behind an unknown pointer"
    OUTSIDE = "other threads, functions without a body, or textures"
    ANY_PARAMETER = "a parameter that is indexed, or whose address is taken"
    RECURSION = "a recursive function, which is not analysed"
    FLOAT_INDEX = "a loaded floating-point number that is converted to an integer"
    AWAITED = "a value by which a thread may know what others have done: an atomic operation or strong load returned it"
    GRID = "the number of blocks"
    BLOCK = "the size of a block"
    LOADED = "internal: a value that an access or a function returned"
    POSSIBLE_POINTER = "internal: memory behind a pointer that a loaded value of 64 bits may be"


Source: TypeAlias = "ParameterValue | MemoryContents | VariableContents | OtherSource"

UNSETTLED = frozenset({
    OtherSource.ANY_MEMORY, OtherSource.OUTSIDE, OtherSource.ANY_PARAMETER, OtherSource.RECURSION,
})  # fmt: skip
"""Sources about which nothing is ever known."""
INTERNAL = frozenset({OtherSource.LOADED, OtherSource.POSSIBLE_POINTER})

_READS = frozenset({"ld", "ldu", "ldmatrix", "wmma", "atom"})
_OUTSIDE = frozenset({"tex", "tld4", "suld", "call", "activemask"})
"""What other lanes pass to a collective has the sources of what this lane passes to it, and what an atomic operation
returns those of its memory: what was there before, and what the kernel stores there."""
_STRONG = frozenset({"volatile", "relaxed", "acquire"})
"""Modifiers of loads that may see what another thread stores meanwhile."""
RETURNS_OTHER_VALUE = frozenset({"ld", "ldu", "atom", "tex", "tld4", "suld", "call", "shfl"})
"""Opcodes whose result is another value than their operands, not one computed from them."""
_SPECIAL = {"%nctaid": OtherSource.GRID, "%nclusterid": OtherSource.GRID, "%ntid": OtherSource.BLOCK}


def own_sources(
    instruction: Instruction, numbers: Mapping[str, int], origins: Mapping[str, frozenset[str]]
) -> Iterator[Source]:
    """Yield the sources that an instruction itself reads.

    ``numbers`` are those of the parameters by name, ``origins`` the roots of registers.
    """
    for name in registers_read(instruction):
        if special := _SPECIAL.get(name.partition(".")[0]):
            yield special
    opcode, address = instruction.opcode, address_operand(instruction)
    if is_parameter_load(instruction):
        yield from parameter_values(instruction, numbers).values()
        if address is None or not isinstance(address.base, Symbol):
            yield OtherSource.ANY_PARAMETER
        return
    if opcode in RETURNS_OTHER_VALUE:
        yield OtherSource.LOADED
    if opcode in _OUTSIDE:
        yield OtherSource.OUTSIDE
    if opcode == "atom" or (opcode == "ld" and _STRONG.intersection(instruction.modifiers)):
        yield OtherSource.AWAITED
    if address is not None and opcode in _READS:
        yield from memory_sources(roots(address, origins), numbers)
        if UNKNOWN in all_roots(address, origins):
            yield OtherSource.POSSIBLE_POINTER


def is_parameter_load(instruction: Instruction) -> bool:
    """Return whether an instruction loads a parameter of the kernel."""
    return instruction.opcode == "ld" and memory_space(instruction) == "param"


def parameter_values(instruction: Instruction, numbers: Mapping[str, int]) -> dict[str, ParameterValue]:
    """Return which parameter, or member of one, each register holds that a load of parameters writes."""
    address = address_operand(instruction)
    if address is None or not isinstance(address.base, Symbol) or address.base.name not in numbers:
        return {}
    number, offset = numbers[address.base.name], address.base.offset + address.offset
    width = type_bytes(access_type(instruction))
    return {
        target.name: ParameterValue(number, offset + index * width)
        for index, target in enumerate(elements(instruction.operands[0]))
        if isinstance(target, Register) and target.name != "_"
    }


def memory_sources(pointers: frozenset[str], numbers: Mapping[str, int]) -> Iterator[Source]:
    """Yield the contents of the memory that a pointer with these roots points to."""
    if not pointers or UNKNOWN in pointers:
        yield OtherSource.ANY_MEMORY
    for root in sorted(pointers - {UNKNOWN}):
        name, separator, offset = root.partition("+")
        if name not in numbers:
            yield VariableContents(root)
        else:
            yield MemoryContents(numbers[name], int(offset)) if separator else OtherSource.ANY_PARAMETER
