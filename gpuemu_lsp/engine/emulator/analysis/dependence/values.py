"""Accesses that a launch makes whatever its buffers hold.

A taint analysis. Loaded values, and parameters that a caller names, are *open*; so is what follows from them
(:mod:`.open_values`). An access is independent if neither its address nor its execution depends on an open value: it is
the same one for every content of memory. Barriers and warp collectives are judged as accesses are, with their operands
but for the data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import build_cfg
from gpuemu_lsp.engine.emulator.analysis.dependence.open_values import open_state
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, roots
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.opcodes import is_collective, memory_space
from gpuemu_lsp.engine.emulator.ir.operands import (
    address_operand,
    flattened,
)
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program
from gpuemu_lsp.engine.ptx.model import Instruction, Location, Register, Symbol
from gpuemu_lsp.engine.ptx.parser import parse

_FROM_MEMORY = frozenset({
    "ld", "ldu", "atom", "tex", "tld4", "suld", "call", "ldmatrix", "wmma", "shfl", "vote", "match", "activemask",
})  # fmt: skip
"""Opcodes whose results memory or other threads determine."""


COMPARISONS = frozenset({"setp", "testp"})
"""Opcodes whose result is the outcome of a comparison."""
_READS = frozenset({"ld", "ldu", "ldmatrix", "prefetch", "prefetchu"})

NO_PARAMETER = -1
"""The number for memory that is not that of a parameter: shared memory and variables."""


@dataclass(frozen=True, slots=True)
class IndependentAccesses:
    """What a kernel does independently of open values, as far as is known.

    ``accesses`` are by source location, number of the pointer's parameter and opcode: whether all of them are
    independent. ``writes`` says the same of all writes to the memory of a parameter, ``synchronization`` of barriers
    and warp collectives. At the locations of ``updates`` shared memory is loaded and stored at one address that open
    values decide, whatever the outcome of conditions. ``scattered`` are the parameters to whose memory something else
    is stored at such an address.
    """

    accesses: Mapping[tuple[Location, int], Mapping[str, bool]]
    writes: Mapping[int, bool]
    synchronization: bool
    updates: frozenset[Location] = frozenset()
    scattered: frozenset[int] = frozenset()

    def is_independent(self, location: Location, pointers: Iterable[int], instruction: str) -> bool:
        """Return whether an instruction, such as ``ld.global.u32``, at a location accesses memory independently."""
        opcode = instruction.partition(".")[0]
        found = [self.accesses[location, number] for number in pointers if (location, number) in self.accesses]
        known = [one for each in found for one in ([each[opcode]] if opcode in each else each.values())]
        return bool(known) and all(known)


def independent_accesses(
    ptx: str, entry: str, unknown: Collection[int], settled: Collection[int] = (), compared: bool = False
) -> IndependentAccesses:
    """Return what a kernel does independently of open values.

    ``unknown`` are the numbers of parameters whose values are open; what those in ``settled`` point to is not.
    ``compared``: the outcome of comparisons with open values is no matter, so that addresses alone decide.
    """
    program, graph = build_cfg(flatten(parse(ptx), entry))
    names = list(program.params)
    opened = frozenset(names[number] for number in unknown if number < len(names))
    known = origins(program)
    closed = frozenset(f"{names[number]}+0" for number in settled if number < len(names))
    state = open_state(
        program, graph, lambda one: _is_source(one, opened, closed, known), COMPARISONS if compared else ()
    )
    accesses: dict[tuple[Location, int], dict[str, bool]] = {}
    writes: dict[int, bool] = {}
    synchronization = not program.recursive
    statements, updates, scattered = _updates(program), set[Location](), set[int]()
    for number, block in enumerate(program.blocks):
        executed = not program.recursive and number not in state.blocks
        if isinstance(block.terminator, BarrierSync):
            registers = state.reads_at_end(number)
            synchronization &= executed and registers.isdisjoint(_deciding(block.terminator.instruction))
        for index, instruction in enumerate(block.code):
            registers = state.reads(number, index)
            if is_collective(instruction):
                synchronization &= executed and registers.isdisjoint(_deciding(instruction))
            address = address_operand(instruction)
            if address is None or memory_space(instruction) == "param":
                continue
            base = [address.base.name] if isinstance(address.base, Register) else []
            reads = list(base)
            if instruction.guard is not None and not compared:
                reads.append(instruction.guard.register.name)
            independent = executed and registers.isdisjoint(reads)
            pointers = _pointers(roots(address, known), names)
            if instruction.opcode == "st" and not registers.isdisjoint(base):
                if instruction.location not in statements:
                    scattered.update(pointers)
                elif executed and registers.isdisjoint(set(reads) - set(base)):
                    updates.add(instruction.location)
            for root in pointers:
                if instruction.location is not None:
                    mine = accesses.setdefault((instruction.location, root), {})
                    mine[instruction.opcode] = mine.get(instruction.opcode, True) and independent
                if instruction.opcode not in _READS:
                    writes[root] = writes.get(root, True) and independent
    return IndependentAccesses(accesses, writes, synchronization, frozenset(updates), frozenset(scattered))


def _updates(program: Program) -> frozenset[Location]:
    """Return the locations of updates of shared memory without an atomic operation, such as ``s[i] += 1``."""
    found = set[Location]()
    for block in program.blocks:
        loaded = set[tuple[Location, str]]()
        for instruction in block.code:
            address, location = address_operand(instruction), instruction.location
            if address is None or location is None or memory_space(instruction) != "shared":
                continue
            if instruction.opcode == "ld":
                loaded.add((location, str(address)))
            elif instruction.opcode == "st" and (location, str(address)) in loaded:
                found.add(location)
    return frozenset(found)


def _deciding(instruction: Instruction) -> frozenset[str]:
    """Return the registers that decide which threads a barrier or collective synchronizes, or lanes that it reads."""
    operands = instruction.operands
    if instruction.opcode in ("bar", "barrier"):
        operands = operands[:-1] if "red" in instruction.modifiers else operands
    else:
        operands = operands[2:] if instruction.opcode in ("shfl", "vote", "match", "redux", "elect") else ()
    guard = () if instruction.guard is None else (instruction.guard.register.name,)
    return frozenset((*(one.name for one in flattened(operands) if isinstance(one, Register)), *guard))


def _pointers(found: frozenset[str], names: list[str]) -> Iterable[int]:
    """Return the parameters that a pointer may be, all of them if it is not known."""
    if not found or UNKNOWN in found:
        return range(NO_PARAMETER, len(names))
    numbers = {name: number for number, name in enumerate(names)}
    return {numbers.get(root.partition("+")[0], NO_PARAMETER) for root in found}


def _is_source(
    instruction: Instruction, unknown: frozenset[str], settled: frozenset[str], known: Mapping[str, frozenset[str]]
) -> bool:
    address = address_operand(instruction)
    pointed = roots(address, known) if settled and instruction.opcode in ("ld", "ldu") else frozenset()
    if pointed and pointed <= settled:
        return False
    if instruction.opcode == "ld" and memory_space(instruction) == "param":
        # A parameter that is indexed may be any of them.
        return address is None or not isinstance(address.base, Symbol) or address.base.name in unknown
    return instruction.opcode in _FROM_MEMORY
