"""Parameters of which two neighbouring elements are read together, which shows that their values are in an order.

``for (int j = ptr[row]; j < ptr[row + 1]; j++)`` has the bounds of a loop in them, as the row pointers of a sparse
matrix are. ``if (key[i] != key[i - 1])`` finds the first of equal elements, which finds each value once only if equal
ones are neighbours. Both are read through one address, at offsets that differ by one element. The results decide which
values are tried, and no claim depends on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from gpuemu_lsp.engine.emulator.analysis.dependence.loops import loops_of
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import MemoryContents, memory_sources
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import COMPARISONS, Taint, taint_of
from gpuemu_lsp.engine.emulator.analysis.provenance import all_roots
from gpuemu_lsp.engine.emulator.ir.opcodes import type_bytes
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_written
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Register

_INTEGERS = frozenset({"b32", "u32", "s32", "b64", "u64", "s64"})
_MAX_SUMS = 8
"""Additions of constants to an address that are followed."""


def row_bounds(ptx: str, entry: str, candidates: Collection[int]) -> frozenset[int]:
    """Return which of these parameters, by number, point to elements that are the bounds of loops."""
    taint = taint_of(ptx, entry)
    if taint.program.recursive:
        return frozenset()
    ends = (source for loop in loops_of(taint) for source in loop.sources)
    bounds = {source.parameter for source in ends if isinstance(source, MemoryContents)}
    return frozenset(bounds & _read_in_pairs(taint) & set(candidates))


def compared_neighbours(ptx: str, entry: str, candidates: Collection[int]) -> frozenset[int]:
    """Return which of these parameters, by number, point to elements that are compared with the next one."""
    taint = taint_of(ptx, entry)
    if taint.program.recursive:
        return frozenset()
    pairs = _read_in_pairs(taint) & set(candidates)
    return frozenset(parameter for parameter in pairs if _is_compared_with_itself(parameter, taint))


def _is_compared_with_itself(parameter: int, taint: Taint) -> bool:
    """Return whether both operands of a comparison are computed from what a parameter points to."""
    elements = taint.bits([MemoryContents(parameter)])
    return any(
        all(elements & taint.values.read(block, index, (name,)) for name in names)
        for (block, index), names in _comparisons(taint.program)
    )


def _comparisons(program: Program) -> Iterator[tuple[tuple[int, int], tuple[str, str]]]:
    """Yield the places of comparisons of two registers, with these."""
    for number, block in enumerate(program.blocks):
        for index, instruction in enumerate(block.code):
            registers = [one.name for one in instruction.operands[-2:] if isinstance(one, Register)]
            if instruction.opcode in COMPARISONS and len(registers) == 2:
                yield (number, index), (registers[0], registers[1])


def _read_in_pairs(taint: Taint) -> set[int]:
    """Return the parameters of which two integers are read that are next to each other."""
    sums = _constant_sums(taint.program)
    read: dict[tuple[int, str, int], set[int]] = defaultdict(set)
    for parameter, base, offset, size in _integer_loads(taint):
        for _ in range(_MAX_SUMS):
            if base not in sums:
                break
            base, more = sums[base]
            offset += more
        read[parameter, base, size].add(offset)
    return {
        parameter for (parameter, _, size), offsets in read.items() if any(one + size in offsets for one in offsets)
    }


def _integer_loads(taint: Taint) -> Iterator[tuple[int, str, int, int]]:
    """Yield the loads of single integers: number of the parameter, register and offset of the address, and bytes."""
    for instruction in _instructions(taint.program):
        address = address_operand(instruction)
        kind = instruction.modifiers[-1] if instruction.modifiers else ""
        if instruction.opcode != "ld" or kind not in _INTEGERS or address is None:
            continue
        for source in memory_sources(all_roots(address, taint.origins), taint.numbers):
            if isinstance(source, MemoryContents) and isinstance(address.base, Register):
                yield source.parameter, address.base.name, address.offset, type_bytes(kind)


def _constant_sums(program: Program) -> Mapping[str, tuple[str, int]]:
    """Return the registers that are another one plus a constant wherever they are read."""
    written: dict[str, int] = defaultdict(int)
    sums: dict[str, tuple[str, int]] = {}
    for instruction in _instructions(program):
        for name in registers_written(instruction):
            written[name] += 1
        if instruction.opcode != "add" or len(instruction.operands) != 3:
            continue
        result, left, right = instruction.operands
        if isinstance(result, Register) and isinstance(left, Register) and isinstance(right, Immediate):
            sums[result.name] = left.name, right.bits
    return {name: found for name, found in sums.items() if written[name] == 1}


def _instructions(program: Program) -> Iterator[Instruction]:
    return (instruction for block in program.blocks for instruction in block.code)
