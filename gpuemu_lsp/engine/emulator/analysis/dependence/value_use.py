"""Parameters whose loaded values are only compared, computed with and stored.

A taint analysis of explicit flows, through registers and memory. It follows values up to a comparison: which of two
addresses the program computes itself may depend on a value. A value that reaches an address, the number of iterations
of a loop, a barrier's operands or a branch to a trap must be one that the kernel expects.

The result decides which inputs are tried, and no claim depends on it: see :mod:`.values`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.emulator.analysis.cfg import build_cfg
from gpuemu_lsp.engine.emulator.analysis.dependence.control import control_dependences
from gpuemu_lsp.engine.emulator.analysis.dependence.values import COMPARISONS
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, all_roots, origins
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import (
    address_operand,
    registers_read,
    registers_written,
    terminator_reads,
)
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program, Trap
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Register
from gpuemu_lsp.engine.ptx.parser import parse

_LOADS = frozenset({"ld", "ldu", "ldmatrix", "wmma"})
_STORES = frozenset({"st", "stmatrix", "red", "atom", "sust"})
_UPDATES = frozenset({"red", "atom", "cp"})
_SYNCHRONIZING = frozenset({"volatile", "acquire", "mmio"})

Taint = dict[str, set[int]]


@dataclass(slots=True)
class _Flows:
    """What loaded values have reached so far, by parameter."""

    values: Taint = field(default_factory=lambda: defaultdict(set))
    conditions: Taint = field(default_factory=lambda: defaultdict(set))
    memory: Taint = field(default_factory=lambda: defaultdict(set))
    constants: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Integers with which values are compared, by parameter."""

    @property
    def size(self) -> int:
        """The number of facts, which only grows."""
        return sum(len(one) for facts in (self.values, self.conditions, self.memory) for one in facts.values())


def only_compared(ptx: str, entry: str, candidates: Collection[int]) -> dict[int, frozenset[int]]:
    """Return which of these parameters, by number, point to such values, each with constants that decide about them.

    Those are the ones with which values are compared, or to which they are added. Buffers that are updated atomically
    do not have such values.
    """
    program, graph = build_cfg(flatten(parse(ptx), entry))
    if program.recursive:
        return {}
    names = list(program.params)
    numbers = {names[number]: number for number in candidates if number < len(names)}
    known = origins(program)
    found = _flows(program, numbers, known)
    used: set[int] = set()
    for block in program.blocks:
        for instruction in block.code:
            address = address_operand(instruction)
            if address is not None and isinstance(address.base, Register):
                used |= found.values[address.base.name]
            if _is_synchronizing(instruction) and address is not None:
                used |= _parameters(all_roots(address, known), numbers)
        if isinstance(block.terminator, BarrierSync):
            used.update(*(found.values[name] for name in terminator_reads(block)))
    deciding = control_dependences(graph)
    for number, block in enumerate(program.blocks):
        reads = terminator_reads(block)
        decided = set[int]().union(*(found.values[name] | found.conditions[name] for name in reads))
        if not decided <= used and _decides_end(number, deciding, program):
            used |= decided
    return {number: frozenset(found.constants[number]) for number in numbers.values() if number not in used}


def _flows(program: Program, numbers: Mapping[str, int], known: Mapping[str, frozenset[str]]) -> _Flows:
    """Return the fixed point of the flows of values."""
    found = _Flows()
    instructions = [instruction for block in program.blocks for instruction in block.code]
    before = -1
    while found.size != before:
        before = found.size
        for instruction in instructions:
            _step(instruction, found, numbers, known)
    return found


def _step(
    instruction: Instruction, found: _Flows, numbers: Mapping[str, int], known: Mapping[str, frozenset[str]]
) -> None:
    address = address_operand(instruction)
    if instruction.opcode in _LOADS and memory_space(instruction) == "param":
        return
    read = set(registers_read(instruction))
    values = set[int]().union(*(found.values[name] for name in read))
    conditions = set[int]().union(*(found.conditions[name] for name in read))
    if address is not None and instruction.opcode in (*_LOADS, *_STORES):
        roots = all_roots(address, known)
        if instruction.opcode in _STORES:
            for root in roots or {UNKNOWN}:
                found.memory[root] |= values
        loaded = roots | {UNKNOWN} if roots and UNKNOWN not in roots else found.memory.keys() | {UNKNOWN}
        values = values.union(_parameters(roots, numbers), *(found.memory[root] for root in tuple(loaded)))
    compared = instruction.opcode in COMPARISONS
    if compared or instruction.opcode == "add":
        integers = [one.bits for one in instruction.operands if isinstance(one, Immediate) and one.kind == "int"]
        for number in values:
            found.constants[number].update(integers if compared else (-one for one in integers))
    for name in registers_written(instruction):
        if compared:
            found.conditions[name] |= values | conditions
        else:
            found.values[name] |= values
            # What is selected by a condition may be a condition as well.
            found.conditions[name] |= conditions


def _parameters(roots: frozenset[str], numbers: Mapping[str, int]) -> set[int]:
    """Return the candidates that a pointer may be derived from, all of them if that is not known."""
    if not roots or UNKNOWN in roots:
        return set(numbers.values())
    return {numbers[name] for name in (root.partition("+")[0] for root in roots) if name in numbers}


def _is_synchronizing(instruction: Instruction) -> bool:
    return instruction.opcode in _UPDATES or not _SYNCHRONIZING.isdisjoint(instruction.modifiers)


def _decides_end(number: int, deciding: list[set[int]], program: Program) -> bool:
    """Return whether a branch decides if it is executed again, or if the kernel traps."""
    reached: set[int] = set()
    following: Iterable[int] = deciding[number]
    while new := set(following) - reached:
        reached |= new
        following = set[int]().union(*(deciding[block] for block in new))
    return number in reached or any(isinstance(program.blocks[block].terminator, Trap) for block in reached)
