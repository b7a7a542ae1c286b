"""Parameters whose loaded values are only compared, computed with and stored, and those that are tested for NaN.

Values are followed up to a comparison, through registers and memory: which of two addresses the program computes itself
may depend on a value. A value that reaches an address, the number of iterations of a loop, a barrier's operands or a
branch to a trap must be one that the kernel expects.

A kernel that compares what it computes from an input with an infinity, or tests it for NaN, is written for such inputs.

The results decide which inputs are tried, and no claim depends on them: see :mod:`.kernel`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.analysis.dependence.control import control_dependences
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import MemoryContents, OtherSource, Source, memory_sources
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import COMPARISONS, FLOAT_TYPES, Taint, taint_of
from gpuemu_lsp.engine.emulator.analysis.provenance import all_roots
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_read, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program, Trap
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Register

_STORES = frozenset({"st", "stmatrix", "red", "atom", "sust"})
_UPDATES = frozenset({"red", "atom", "cp"})
_SYNCHRONIZING = frozenset({"volatile", "acquire", "mmio"})
_INFINITIES = {"f32": 0x7F800000, "f64": 0x7FF0000000000000}
_SIGNS = {"f32": 1 << 31, "f64": 1 << 63}
_OF_NAN = frozenset({"nan", "num"})

_Bits: TypeAlias = int
"""Sources by their bits: see :class:`~.taint.Taint`."""


@dataclass(slots=True)
class _Uses:
    """What a kernel does with the values that it loads."""

    expected: _Bits = 0
    """Values that reach an address, a barrier, a trap or the number of iterations of a loop."""
    synchronizing: set[Source] = field(default_factory=set)
    """Memory that is updated atomically or accessed with an order."""
    compared: dict[_Bits, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Integers with which values are compared, or which are subtracted from them."""
    stored: dict[Source, _Bits] = field(default_factory=lambda: defaultdict(int))
    """Values that are stored in memory, by the source that a load of them is."""
    special: _Bits = 0
    """Values that are tested for NaN, or compared with an infinity."""


def only_compared(ptx: str, entry: str, candidates: Collection[int]) -> dict[int, frozenset[int]]:
    """Return which of these parameters, by number, point to such values, each with constants that decide about them.

    Those are the ones with which values are compared, or to which they are added. Buffers that are updated atomically
    do not have such values.
    """
    taint = taint_of(ptx, entry)
    program = taint.program
    if program.recursive:
        return {}
    uses = _uses(taint)
    compared: dict[int, frozenset[int]] = {}
    for parameter in candidates:
        if parameter >= len(program.params):
            continue
        held = _held(parameter, taint, uses)
        if not held & uses.expected and not any(_may_be_of(one, parameter) for one in uses.synchronizing):
            constants = [integers for bits, integers in uses.compared.items() if held & bits]
            compared[parameter] = frozenset().union(*constants)
    return compared


def special_inputs(ptx: str, entry: str, candidates: Collection[int]) -> frozenset[int]:
    """Return which of these parameters, by number, point to numbers that the kernel tests for NaN or infinity.

    What is computed from a number, or was stored in between, is tested as well.
    """
    taint = taint_of(ptx, entry)
    if taint.program.recursive:
        return frozenset()
    uses = _uses(taint)
    numbers = [one for one in candidates if one < len(taint.program.params)]
    return frozenset(one for one in numbers if _held(one, taint, uses) & uses.special)


def _held(parameter: int, taint: Taint, uses: _Uses) -> _Bits:
    """Return what loads of a parameter's memory return, and loads of memory in which that was stored."""
    contents = [one for one in taint.sources if _may_be_of(one, parameter)]
    return taint.bits(reachable(contents, lambda one: _holders(one, taint, uses)))


def _may_be_of(source: Source, parameter: int) -> bool:
    """Return whether a source may be what a parameter points to."""
    if isinstance(source, MemoryContents):
        return source.parameter == parameter
    return source in (OtherSource.ANY_MEMORY, OtherSource.POSSIBLE_POINTER)


def _holders(source: Source, taint: Taint, uses: _Uses) -> Iterator[Source]:
    """Yield the sources whose loads may return a value that was stored."""
    bit = taint.bits([source])
    for memory, stored in uses.stored.items():
        if stored & bit:
            # A store through an unknown pointer may be to any memory, and a load through one from any.
            is_any = memory is OtherSource.ANY_MEMORY
            yield from taint.sources if is_any else (memory, OtherSource.ANY_MEMORY, OtherSource.POSSIBLE_POINTER)


def _uses(taint: Taint) -> _Uses:
    uses = _Uses()
    deciding = control_dependences(taint.graph)
    for number, block in enumerate(taint.program.blocks):
        for index, instruction in enumerate(block.code):
            _add_uses(uses, instruction, taint, (number, index))
        place = number, len(block.code)
        reads = terminator_reads(block)
        if isinstance(block.terminator, BarrierSync):
            uses.expected |= taint.values.read(*place, reads)
        elif (decided := taint.outcomes.read(*place, reads)) and _decides_end(number, deciding, taint.program):
            uses.expected |= decided
    return uses


def _add_uses(uses: _Uses, instruction: Instruction, taint: Taint, place: tuple[int, int]) -> None:
    address = address_operand(instruction)
    values = taint.values.read(*place, registers_read(instruction))
    if address is not None:
        if isinstance(address.base, Register):
            uses.expected |= taint.values.read(*place, (address.base.name,))
        memory = list(memory_sources(all_roots(address, taint.origins), taint.numbers))
        if _is_synchronizing(instruction):
            uses.synchronizing.update(memory)
        if instruction.opcode in _STORES:
            for source in memory:
                uses.stored[source] |= values
    is_comparison = instruction.opcode in COMPARISONS
    if is_comparison and _is_special_test(instruction):
        uses.special |= values
    if values and (is_comparison or instruction.opcode == "add"):
        integers = [one.bits for one in instruction.operands if isinstance(one, Immediate) and one.kind == "int"]
        uses.compared[values].update(integers if is_comparison else (-one for one in integers))


def _is_special_test(instruction: Instruction) -> bool:
    """Return whether a comparison is one with an infinity, or finds a NaN: only a NaN differs from itself."""
    if instruction.opcode == "testp" or not _OF_NAN.isdisjoint(instruction.modifiers):
        return True
    compared = instruction.operands[-2:]
    infinite = [one for one in compared if isinstance(one, Immediate) and _is_infinite(one)]
    is_float = any(modifier in FLOAT_TYPES for modifier in instruction.modifiers)
    return bool(infinite) or (is_float and len(compared) > 1 and compared[0] == compared[1])


def _is_infinite(number: Immediate) -> bool:
    return number.kind in _SIGNS and number.bits & ~_SIGNS[number.kind] == _INFINITIES[number.kind]


def _is_synchronizing(instruction: Instruction) -> bool:
    return instruction.opcode in _UPDATES or not _SYNCHRONIZING.isdisjoint(instruction.modifiers)


def _decides_end(number: int, deciding: list[set[int]], program: Program) -> bool:
    """Return whether a branch decides if it is executed again, or if the kernel traps."""
    decided = reachable(deciding[number], deciding.__getitem__)
    return number in decided or any(isinstance(program.blocks[block].terminator, Trap) for block in decided)
