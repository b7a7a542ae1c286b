"""What decides whether the loops of a kernel end: the sources of the conditions on which their branches leave them.

A condition that is computed from memory depends on what the kernel itself stores there too. What decides only whether a
thread reaches the loop is not among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import natural_loop
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import (
    MemoryContents,
    OtherSource,
    Source,
    VariableContents,
    memory_sources,
)
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import Taint
from gpuemu_lsp.engine.emulator.analysis.provenance import roots
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_read
from gpuemu_lsp.engine.emulator.ir.program import Branch, Switch
from gpuemu_lsp.engine.ptx.model import Location, Register

_LOADS = frozenset({"ld", "ldu", "ldmatrix", "prefetch", "prefetchu"})


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """When a loop ends: the locations of its instructions, and the sources that decide when it is left.

    No branch leaves an ``endless`` one.
    """

    locations: frozenset[Location]
    sources: frozenset[Source]
    endless: bool


def loops_of(taint: Taint) -> Iterator[LoopEnd]:
    """Yield the loops of a kernel."""
    blocks, graph = taint.program.blocks, taint.graph
    bodies: dict[int, set[int]] = defaultdict(set)
    for latch, header in graph.back_edges:
        bodies[header] |= natural_loop([*map(list, graph.predecessors)], latch, header)
    stored = _stored(taint)
    for header, body in bodies.items():
        before = 0
        for number in set(graph.predecessors[header]) - body:
            before |= taint.execution.blocks[number]
        bits, endless = 0, True
        for number in body:
            endless = endless and body.issuperset(blocks[number].targets)
            end, index = blocks[number].terminator, len(blocks[number].code)
            names = registers_of(end)
            if names and not body.issuperset(blocks[number].targets):
                bits |= taint.outcomes.read(number, index, names)
                # What decides that the loop is reached decides about all that is in it.
                bits |= taint.execution.read(number, index, names) & ~before
        unknown = frozenset({OtherSource.RECURSION}) if taint.program.recursive or not graph.reducible else frozenset()
        locations = frozenset(one.location for number in body for one in blocks[number].code if one.location)
        yield LoopEnd(locations, _with_stored(taint.sources_of(bits), stored) | unknown, endless)


def registers_of(end: object) -> tuple[str, ...]:
    """Return the registers that decide where a terminator continues."""
    if isinstance(end, Branch):
        return (end.guard.register.name,)
    return (end.index.name,) if isinstance(end, Switch) and isinstance(end.index, Register) else ()


def _stored(taint: Taint) -> Mapping[Source, frozenset[Source]]:
    """Return the sources of what the kernel stores to memory, and of the addresses, by that memory."""
    stored: dict[Source, frozenset[Source]] = defaultdict(frozenset)
    for number, block in enumerate(taint.program.blocks):
        for index, instruction in enumerate(block.code):
            address = address_operand(instruction)
            if address is None or instruction.opcode in _LOADS or memory_space(instruction) == "param":
                continue
            sources = taint.sources_of(taint.outcomes.read(number, index, registers_read(instruction)))
            for memory in memory_sources(roots(address, taint.origins), taint.numbers):
                stored[memory] |= sources
    return stored


def _with_stored(sources: frozenset[Source], stored: Mapping[Source, frozenset[Source]]) -> frozenset[Source]:
    """Return the sources with those of what is stored in the memory among them."""
    reached, waiting = set(sources), list(sources)
    while waiting:
        source = waiting.pop()
        if isinstance(source, MemoryContents | VariableContents):
            # A store through a pointer that is not reached may be to any memory.
            more = (stored.get(source, frozenset()) | stored.get(OtherSource.ANY_MEMORY, frozenset())) - reached
            reached |= more
            waiting += more
    return frozenset(reached)
