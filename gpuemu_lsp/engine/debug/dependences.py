"""Dynamic dependences of a recorded block: on which earlier instructions what an instruction did depends.

A dependence is of a *value* (a register or an element of memory), of an *index* (a register that an address is made
of), or of a *condition* (a predicate that decided whether the instruction was executed).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from gpuemu_lsp.engine.debug.access_table import Kind
from gpuemu_lsp.engine.debug.accesses import Accesses
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.emulator.analysis.dependence.control import control_dependences
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.operands import (
    address_operand,
    flattened,
    registers_read,
    split_operands,
    terminator_reads,
)
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Register


class Reason(IntEnum):
    """How an instruction depends on an earlier one, from the closest to the loosest."""

    VALUE = 0
    INDEX = 1
    CONDITION = 2


@dataclass(frozen=True, slots=True)
class Element:
    """Bytes of memory that an instruction accessed, and their value; ``writer`` is who wrote them, None for none.

    The writer is a thread and a tick; ``is_external`` is set where it is outside of the block. Of an atomic update,
    ``bits`` are what it leaves in memory.
    """

    address: int
    size: int
    bits: int
    tick: int
    writer: tuple[int, int] | None
    is_write: bool = False
    is_update: bool = False
    is_external: bool = False


def distinct(elements: Sequence[Element]) -> list[Element]:
    """Return one of several accesses to an element: reads first."""
    by_place = {(one.address, one.is_write): one for one in elements}
    return sorted(by_place.values(), key=lambda one: (one.is_write, one.tick))


@dataclass(frozen=True, slots=True)
class RuntimeDependence:
    """What an instruction depends on: the instruction of ``thread`` at ``tick``."""

    reason: Reason
    thread: int
    tick: int
    element: Element | None = None
    """The element of memory by which a value came, None for a register."""


class RuntimeDependences:
    """RuntimeDependences of single instructions."""

    def __init__(self, history: History, accesses: Accesses) -> None:
        self._history, self._accesses = history, accesses
        self._deciding: dict[int, set[int]] = defaultdict(set)
        for number, blocks in enumerate(control_dependences(history.recording.graph)):
            for block in blocks:
                self._deciding[block].add(number)

    def of(self, thread: int, tick: int) -> Iterator[RuntimeDependence]:
        """Yield the dependences of the instruction that a thread executes at a tick, without those of its block."""
        instruction = self._history.instruction(tick)
        if instruction is None:
            return
        for name, reason in _read_registers(instruction):
            yield from self._register(reason, name, self._source_thread(instruction, name, thread, tick), tick)
        for element in self.elements(thread, tick):
            if not element.is_write and element.writer is not None:
                yield RuntimeDependence(Reason.VALUE, *element.writer, element)

    def conditions(self, thread: int, tick: int) -> Iterator[RuntimeDependence]:
        """Yield the conditions that decided that a thread executes the instruction at a tick, the innermost alone."""
        run = self._history.run_at(tick)
        deciding = self._deciding.get(int(self._history.block[run]), set())
        latest = self._history.latest_run(thread, deciding, run)
        if latest is not None:
            yield from self.branch(thread, latest)

    def decisions(self, thread: int, tick: int) -> Iterator[RuntimeDependence]:
        """Yield what decided that a thread did not execute the instruction that another executed at a tick."""
        history = self._history
        deciding = self._deciding.get(int(history.block[history.run_at(tick)]), set())
        latest = history.latest_run(thread, deciding, len(history.block))
        if latest is not None:
            yield from self.branch(thread, latest)

    def branch(self, thread: int, run: int) -> Iterator[RuntimeDependence]:
        """Yield what the branch at the end of a run depends on."""
        end = int(self._history.start[run + 1]) - 1
        for name in terminator_reads(self._history.program.blocks[int(self._history.block[run])]):
            yield from self._register(Reason.CONDITION, name, thread, end)

    def elements(self, thread: int, tick: int) -> list[Element]:
        """Return the elements of memory that a thread accesses at a tick."""
        found = []
        for access in self._accesses.between(thread, tick, tick):
            address, size = int(access["address"]), int(access["size"])
            latest = self._accesses.last_writer(address, size, tick)
            external = latest is not None and latest["kind"] == Kind.EXTERNAL
            writer = (int(latest["thread"]), int(latest["cause"])) if latest is not None and not external else None
            if access["kind"] == Kind.ISSUE or access["cause"] != tick:
                continue
            is_write, is_update = access["kind"] == Kind.STORE, access["kind"] == Kind.UPDATE
            found.append(Element(address, size, int(access["value"]), tick, writer, is_write, is_update, external))
        return found

    def _register(self, reason: Reason, name: str, thread: int, tick: int) -> Iterator[RuntimeDependence]:
        definition = self._history.definition(name, thread, tick)
        if definition is not None:
            yield RuntimeDependence(reason, thread, definition.tick)
            if reason is Reason.VALUE:
                yield from self._omissions(name, thread, definition.tick, tick)

    def _omissions(self, name: str, thread: int, defined: int, tick: int) -> Iterator[RuntimeDependence]:
        """Yield the last decision for which a register was not assigned again between two ticks.

        These are the potential dependences of relevant slices (Gyimothy, Beszedes and Forgacs, "An efficient relevant
        slicing method for debugging", 1999): a loop that was left too early, an assignment that was left out.
        """
        history = self._history
        first, last = history.run_at(defined), history.run_at(tick)
        if first < last:
            deciding = {one for block in history.assigning_blocks(name) for one in self._deciding.get(block, ())}
            latest = history.latest_run(thread, deciding, last)
            if latest is not None and latest >= first:
                yield from self.branch(thread, latest)

    def _source_thread(self, instruction: Instruction, name: str, thread: int, tick: int) -> int:
        """Return the thread whose register an instruction reads: for ``shfl`` that of another lane."""
        if instruction.opcode != "shfl":
            return thread
        _, sources = split_operands(instruction)
        value, *control = sources
        if not isinstance(value, Register) or value.name != name:
            return thread
        numbers = [self._number(operand, thread, tick) for operand in control[:2]]
        if None in numbers:
            return thread
        shift, clamp = (number or 0 for number in numbers)
        lane = thread % WARP_SIZE
        return thread - lane + _source_lane(instruction.modifiers[1], lane, shift, clamp)

    def _number(self, operand: object, thread: int, tick: int) -> int | None:
        if isinstance(operand, Immediate):
            return operand.bits
        definition = self._history.definition(operand.name, thread, tick) if isinstance(operand, Register) else None
        return definition.bits if definition is not None else None


def _read_registers(instruction: Instruction) -> Iterator[tuple[str, Reason]]:
    """Yield the registers that an instruction reads, each once, with the reason."""
    address = address_operand(instruction)
    indices = {address.base.name} if address is not None and isinstance(address.base, Register) else set()
    guard = instruction.guard.register.name if instruction.guard is not None else None
    values = {one.name for one in flattened(split_operands(instruction)[1]) if isinstance(one, Register)}
    for name in dict.fromkeys(registers_read(instruction)):
        if name == guard and name not in values:
            yield name, Reason.CONDITION
        else:
            yield name, Reason.INDEX if name in indices else Reason.VALUE


def _source_lane(mode: str, lane: int, shift: int, clamp: int) -> int:
    """Return the lane that ``shfl`` reads (PTX ISA section 9.7.9.6)."""
    segment, limit = clamp >> 8 & 31, clamp & 31
    first, shift = lane & segment, shift & 31
    last = first | (limit & ~segment)
    if mode == "up":
        return lane - shift if lane - shift >= last else lane
    source = {"down": lane + shift, "bfly": lane ^ shift}.get(mode, first | (shift & ~segment & 31))
    return source if source <= last else lane
