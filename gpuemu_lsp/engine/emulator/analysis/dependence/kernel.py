"""Dependences of a kernel: the sources that decide about each access, and about barriers and warp collectives.

An access that depends on no source that a caller leaves open is the same one whatever that source is. Barriers and warp
collectives are judged as accesses are, with their operands but for the data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import or_
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.analysis.dependence.loops import LoopEnd, loops_of
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import OtherSource, Source
from gpuemu_lsp.engine.emulator.analysis.dependence.stored import of_memory, stored_sources
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import Taint, taint_of
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, roots
from gpuemu_lsp.engine.emulator.ir.opcodes import is_collective, memory_space
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, flattened
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program
from gpuemu_lsp.engine.ptx.model import Instruction, Location, Register

NO_PARAMETER = -1
"""The number for memory that is not that of a parameter: shared memory and variables."""
_READS = frozenset({"ld", "ldu", "ldmatrix", "prefetch", "prefetchu"})

IsOpen: TypeAlias = Callable[[Source], bool]
"""Says of a source whether it may be other than in a launch. Those in ``UNSETTLED`` may always be."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """The sources that decide about an access, a barrier or a collective.

    Those of ``address`` are what an address is computed from, or the operands; those of ``control`` decide through the
    outcome of comparisons only: whether the instruction is executed, or which of several addresses it accesses.
    """

    address: frozenset[Source] = frozenset()
    control: frozenset[Source] = frozenset()

    def __or__(self, other: Dependence) -> Dependence:
        address = self.address | other.address
        return Dependence(address, (self.control | other.control) - address)

    def may_differ(self, is_open: IsOpen, *, compared: bool = False) -> bool:
        """Return whether an open source decides; ``compared``: not through the outcome of comparisons."""
        return any(map(is_open, self.address)) or (not compared and any(map(is_open, self.control)))


_NOTHING_KNOWN = Dependence(frozenset({OtherSource.RECURSION}))


@dataclass(frozen=True, slots=True)
class _Store:
    """An ``st``, the memory that it may access, and what decides about its address and about its execution."""

    location: Location | None
    pointers: tuple[int, ...]
    address: frozenset[Source]
    execution: frozenset[Source]
    is_update: bool


@dataclass(frozen=True, slots=True)
class KernelDependences:
    """What decides about the accesses of a kernel, by source location, number of the pointer's parameter and opcode.

    ``writes`` joins all writes to the memory of a parameter, ``synchronization`` all barriers and warp collectives.
    """

    accesses: Mapping[tuple[Location, int], Mapping[str, Dependence]]
    writes: Mapping[int, Dependence]
    synchronization: Dependence
    loops: tuple[LoopEnd, ...] = ()
    _stores: tuple[_Store, ...] = field(repr=False, default=())

    def at(self, location: Location) -> Iterator[Dependence]:
        """Yield what decides about each access at a location."""
        for (place, _), by_opcode in self.accesses.items():
            if place == location:
                yield from by_opcode.values()

    def of(self, location: Location | None, instruction: str, pointers: Iterable[int]) -> Dependence:
        """Return what decides about an instruction, such as ``ld.global.u32``, that accesses memory at a location.

        ``pointers`` are the numbers of the parameters that the memory may be of. Nothing is known of an instruction
        that is not there.
        """
        opcode = instruction.partition(".")[0]
        places = [(location, number) for number in pointers if location is not None]
        at_place = [self.accesses[place] for place in places if place in self.accesses]
        dependences = [one for each in at_place for one in ([each[opcode]] if opcode in each else each.values())]
        return reduce(or_, dependences, Dependence()) if dependences else _NOTHING_KNOWN

    def pointers(self, location: Location | None, instruction: str) -> frozenset[int]:
        """Return the numbers of the parameters from which the address of an instruction at a location is computed."""
        opcode = instruction.partition(".")[0]
        return frozenset(
            number for (place, number), by_opcode in self.accesses.items() if place == location and opcode in by_opcode
        )

    def leaving(self, location: Location | None) -> frozenset[Source]:
        """Return what decides whether the loops around a location are left, or the endless ones if it is in none.

        Nothing is known of what a thread waits for that is in no loop.
        """
        around = [one for one in self.loops if location in one.locations] or [one for one in self.loops if one.endless]
        return frozenset[Source]().union(*(one.sources for one in around)) if around else _NOTHING_KNOWN.address

    def updates(self, is_open: IsOpen) -> frozenset[Location]:
        """Return where shared memory is loaded and stored at one address that alone depends on open sources."""
        return frozenset(
            store.location
            for store in self._scattered(is_open)
            if store.location is not None and store.is_update and not any(map(is_open, store.execution))
        )

    def scattered(self, is_open: IsOpen) -> frozenset[int]:
        """Return the parameters to whose memory something else is stored at an address that depends on open sources."""
        return frozenset(
            number for store in self._scattered(is_open) if not store.is_update for number in store.pointers
        )

    def _scattered(self, is_open: IsOpen) -> Iterator[_Store]:
        return (store for store in self._stores if any(map(is_open, store.address)))


class _Deciding:
    """The sources of values and of executions, with those of what the kernel stores in the memory that it loads."""

    def __init__(self, taint: Taint) -> None:
        self._taint = taint
        self._stored_values = stored_sources(taint, taint.values)
        self._stored = stored_sources(taint, taint.execution)

    def values(self, bits: int) -> frozenset[Source]:
        """Return the sources of values with these bits."""
        return of_memory(self._taint.sources_of(bits), self._stored_values, self._taint.program)

    def all(self, bits: int) -> frozenset[Source]:
        """Return the sources with these bits, and those that decide what is stored."""
        return of_memory(self._taint.sources_of(bits), self._stored, self._taint.program)

    def of(self, block: int, index: int, operands: Collection[str], guard: Collection[str] = ()) -> Dependence:
        """Return what decides about an instruction with some operands, in a block and under a guard."""
        taint = self._taint
        if taint.program.recursive:
            return _NOTHING_KNOWN
        values = self.values(taint.values.read(block, index, operands))
        all_of_them = taint.execution.read(block, index, (*operands, *guard)) | taint.execution.blocks[block]
        return Dependence(values, self.all(all_of_them) - values)


@lru_cache(maxsize=8)  # as of `kernel_graph`
def dependences(ptx: str, entry: str) -> KernelDependences:
    """Return what decides about the accesses of a kernel."""
    taint = taint_of(ptx, entry)
    program, deciding = taint.program, _Deciding(taint)
    accesses: dict[tuple[Location, int], dict[str, Dependence]] = defaultdict(dict)
    writes: dict[int, Dependence] = {}
    synchronization = _NOTHING_KNOWN if program.recursive else Dependence()
    unknown = synchronization.address
    stores: list[_Store] = []
    updates = _updates(program)
    for number, block in enumerate(program.blocks):
        if isinstance(block.terminator, BarrierSync):
            operands = _deciding(block.terminator.instruction)
            synchronization |= deciding.of(number, len(block.code), operands)
        for index, instruction in enumerate(block.code):
            if is_collective(instruction):
                synchronization |= deciding.of(number, index, _deciding(instruction))
            address = address_operand(instruction)
            if address is None or memory_space(instruction) == "param":
                continue
            base = (address.base.name,) if isinstance(address.base, Register) else ()
            guard = () if instruction.guard is None else (instruction.guard.register.name,)
            dependence = deciding.of(number, index, base, guard)
            pointers = _pointers(roots(address, taint.origins), taint.numbers)
            location, opcode = instruction.location, instruction.opcode
            if opcode == "st" and base:
                executed = taint.execution.read(number, index, set(guard) - set(base)) | taint.execution.blocks[number]
                stores.append(
                    _Store(
                        location,
                        pointers,
                        deciding.all(taint.execution.read(number, index, base)),
                        deciding.all(executed) | unknown,
                        location in updates,
                    )
                )
            for pointer in pointers:
                if location is not None:
                    at_place = accesses[location, pointer]
                    at_place[opcode] = at_place.get(opcode, Dependence()) | dependence
                if opcode not in _READS:
                    writes[pointer] = writes.get(pointer, Dependence()) | dependence
    return KernelDependences(dict(accesses), writes, synchronization, tuple(loops_of(taint)), tuple(stores))


def _updates(program: Program) -> frozenset[Location]:
    """Return the locations of updates of shared memory without an atomic operation, such as ``s[i] += 1``."""
    updates = set[Location]()
    for block in program.blocks:
        loaded = set[tuple[Location, str]]()
        for instruction in block.code:
            address, location = address_operand(instruction), instruction.location
            if address is None or location is None or memory_space(instruction) != "shared":
                continue
            if instruction.opcode == "ld":
                loaded.add((location, str(address)))
            elif instruction.opcode == "st" and (location, str(address)) in loaded:
                updates.add(location)
    return frozenset(updates)


def _deciding(instruction: Instruction) -> frozenset[str]:
    """Return the registers that decide which threads a barrier or collective synchronizes, or lanes that it reads."""
    operands = instruction.operands
    if instruction.opcode in ("bar", "barrier"):
        operands = operands[:-1] if "red" in instruction.modifiers else operands
    else:
        operands = operands[2:] if instruction.opcode in ("shfl", "vote", "match", "redux", "elect") else ()
    guard = () if instruction.guard is None else (instruction.guard.register.name,)
    return frozenset((*(one.name for one in flattened(operands) if isinstance(one, Register)), *guard))


def _pointers(its_roots: frozenset[str], numbers: Mapping[str, int]) -> tuple[int, ...]:
    """Return the parameters that a pointer may be, all of them if it is not known."""
    if not its_roots or UNKNOWN in its_roots:
        return tuple(range(NO_PARAMETER, len(numbers)))
    return tuple({numbers.get(root.partition("+")[0], NO_PARAMETER) for root in its_roots})
