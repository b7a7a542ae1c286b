"""What decides whether the loops of a kernel end: the sources of the conditions on which their branches leave them.

A condition that is computed from memory depends on what the kernel itself stores there too. What decides only whether a
thread reaches the loop is not among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import natural_loop
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import OtherSource, Source
from gpuemu_lsp.engine.emulator.analysis.dependence.stored import stored_sources, with_stored
from gpuemu_lsp.engine.emulator.analysis.dependence.taint import Taint
from gpuemu_lsp.engine.emulator.ir.program import Branch, Switch
from gpuemu_lsp.engine.ptx.model import Location, Register


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
    stored = stored_sources(taint, taint.outcomes)
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
        yield LoopEnd(locations, with_stored(taint.sources_of(bits), stored) | unknown, endless)


def registers_of(end: object) -> tuple[str, ...]:
    """Return the registers that decide where a terminator continues."""
    if isinstance(end, Branch):
        return (end.guard.register.name,)
    return (end.index.name,) if isinstance(end, Switch) and isinstance(end.index, Register) else ()
