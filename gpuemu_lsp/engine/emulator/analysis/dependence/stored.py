"""What a kernel stores in memory, as the sources of what it loads from there.

Variables in shared and local memory hold nothing but that. Memory behind a pointer, and variables of the module, hold
what a caller left there as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gpuemu_lsp.engine.emulator.analysis.dependence.sources import (
    MemoryContents,
    OtherSource,
    Source,
    VariableContents,
    memory_sources,
)
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import Flow, Taint
from gpuemu_lsp.engine.emulator.analysis.provenance import roots
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_read
from gpuemu_lsp.engine.emulator.ir.program import Program

_LOADS = frozenset({"ld", "ldu", "ldmatrix", "prefetch", "prefetchu"})
_OF_REGISTERS = frozenset({"st", "stmatrix", "red", "atom"})
"""Opcodes that store what is in registers; others copy memory, or are about barriers in it."""


def stored_sources(taint: Taint, flow: Flow) -> Mapping[Source, frozenset[Source]]:
    """Return the sources of what the kernel stores to memory, and of the addresses, by that memory."""
    stored: dict[Source, frozenset[Source]] = defaultdict(frozenset)
    for number, block in enumerate(taint.program.blocks):
        for index, instruction in enumerate(block.code):
            address = address_operand(instruction)
            if address is None or instruction.opcode in _LOADS or memory_space(instruction) == "param":
                continue
            bits = flow.read(number, index, registers_read(instruction)) | flow.blocks[number]
            sources = taint.sources_of(bits)
            if instruction.opcode not in _OF_REGISTERS:
                sources |= {OtherSource.OUTSIDE}
            for memory in memory_sources(roots(address, taint.origins), taint.numbers):
                stored[memory] |= sources
    return stored


def with_stored(sources: frozenset[Source], stored: Mapping[Source, frozenset[Source]]) -> frozenset[Source]:
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


def of_memory(
    sources: frozenset[Source], stored: Mapping[Source, frozenset[Source]], program: Program
) -> frozenset[Source]:
    """Return the sources with what the kernel stores in the memory among them.

    In shared and local memory there is nothing else: it takes the place of these variables. Memory to which the kernel
    stores nothing that is known to go there is what a caller left in it.
    """
    waiting = [source for source in sources if source in stored or _is_own(source, program)]
    if not waiting:
        return sources
    reached, seen = set(sources), set(waiting)
    while waiting:
        memory = waiting.pop()
        if _is_own(memory, program):
            reached.discard(memory)
        for source in stored.get(memory, frozenset()) | stored.get(OtherSource.ANY_MEMORY, frozenset()):
            if source in seen:
                continue
            seen.add(source)
            if source in stored or _is_own(source, program):
                waiting.append(source)
            reached.add(source)
    return frozenset(reached)


def _is_own(source: Source, program: Program) -> bool:
    if not isinstance(source, VariableContents):
        return False
    name = source.name.partition("+")[0]
    return name in program.shared or name in program.local
