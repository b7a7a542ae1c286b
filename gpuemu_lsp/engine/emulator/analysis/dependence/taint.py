"""Taint analysis of a kernel: the sources that each register holds where it is read.

A result depends on a source if the instruction reads it, if an operand depends on it, and if a condition that does
decides whether the instruction is executed. Conditions decide the execution of the blocks that are control-dependent on
them: see :mod:`.control`. Each set of sources is the bits of an integer, and the flow is along definition-use chains:
a loop counter that begins as the index of the thread, in the same register, makes no use of that index in front of the
loop depend on what the counter does.

Three flows differ in what they follow: values alone, values and the outcome of comparisons, or these and what the
outcome decides to execute. Taint is distributive, so that all sources are followed at once, and a question about some
of them looks up their bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.dataflow import BITS, propagate
from gpuemu_lsp.engine.emulator.analysis.dependence.control import control_dependences
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import (
    INTERNAL,
    RETURNS_OTHER_VALUE,
    OtherSource,
    Source,
    is_parameter_load,
    own_sources,
    parameter_values,
)
from gpuemu_lsp.engine.emulator.analysis.kernel_graph import kernel_graph
from gpuemu_lsp.engine.emulator.analysis.provenance import origins
from gpuemu_lsp.engine.emulator.analysis.value_flow import DefinitionUses
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Instruction

COMPARISONS = frozenset({"setp", "testp"})
"""Opcodes whose result is the outcome of a comparison."""
FLOAT_TYPES = frozenset({"f16", "f32", "f64", "bf16"})
"""Modifiers of floating-point numbers."""


class Follow(Enum):
    """What a flow follows."""

    VALUES = "values, but not the outcome of comparisons"
    OUTCOMES = "values and the outcome of comparisons"
    EXECUTION = "values, outcomes, and what they decide to execute"


@dataclass(frozen=True, slots=True)
class Flow:
    """The bits of the sources of each ``block``'s execution, and of each register where it is read."""

    blocks: tuple[int, ...]
    _reads: Mapping[tuple[int, int], Mapping[str, int]]

    def read(self, block: int, index: int, names: Iterable[str]) -> int:
        """Return the sources of registers where an instruction reads them, or the terminator behind them."""
        at_place = self._reads.get((block, index), {})
        bits = 0
        for name in names:
            bits |= at_place.get(name, 0)
        return bits


class Taint:
    """The flows of a kernel from all ``sources``, of which the first one is bit 0."""

    def __init__(self, program: Program, graph: ControlFlowGraph) -> None:
        self.program, self.graph = program, graph
        self.numbers = {name: number for number, name in enumerate(program.params)}
        self.origins = origins(program)
        self.sources: list[Source] = [OtherSource.LOADED, OtherSource.FLOAT_INDEX]
        self._bits: dict[Source, int] = {source: 1 << number for number, source in enumerate(self.sources)}
        self._floats = sum(self._bits.values())
        self._uses = DefinitionUses(program)
        self._own: dict[int, int] = {}
        self._others: dict[tuple[int, str], int] = {}
        for site, instruction in self._uses.instructions.items():
            own = tuple(own_sources(instruction, self.numbers, self.origins))
            for source in own:
                if source not in self._bits:
                    self._bits[source] = 1 << len(self.sources)
                    self.sources.append(source)
            if own:
                self._own[site] = self.bits(own)
            if is_parameter_load(instruction):
                # Each element of a vector is another parameter.
                for name, source in parameter_values(instruction, self.numbers).items():
                    self._others[site, name] = self._own[site] & ~self.bits([source])
        self._sets: dict[int, frozenset[Source]] = {}
        self._used_at: dict[tuple[int, str], tuple[int, ...]] = {}

    def bits(self, sources: Iterable[Source]) -> int:
        """Return the bits of those sources that the kernel reads."""
        bits = 0
        for source in sources:
            bits |= self._bits.get(source, 0)
        return bits

    def sources_of(self, bits: int) -> frozenset[Source]:
        """Return the sources with these bits."""
        if bits not in self._sets:
            self._sets[bits] = (
                frozenset(one for number, one in enumerate(self.sources) if bits >> number & 1) - INTERNAL
            )
        return self._sets[bits]

    @cached_property
    def values(self) -> Flow:
        """The flow of values."""
        return self._flow(Follow.VALUES)

    @cached_property
    def outcomes(self) -> Flow:
        """The flow of values and outcomes of comparisons."""
        return self._flow(Follow.OUTCOMES)

    @cached_property
    def execution(self) -> Flow:
        """The flow of values, outcomes of comparisons and what they decide to execute."""
        return self._flow(Follow.EXECUTION)

    def _flow(self, follow: Follow) -> Flow:
        uses, instructions = self._uses, self._uses.instructions
        ends = [len(block.code) for block in self.program.blocks]
        deciding = control_dependences(self.graph) if follow is Follow.EXECUTION else [()] * len(ends)
        blocks = [0] * len(ends)
        reads: dict[tuple[int, int], dict[str, int]] = {}

        def flow(site: int, arriving: int) -> Iterator[tuple[int, int]]:
            result = self._result(site, arriving, follow)
            for name in registers_written(instructions[site]) if result else ():
                sources = result & ~self._others.get((site, name), 0)
                for use in self._sites_of_uses(site, name):
                    number, index = place = uses.place_of(use)
                    at_place = reads.setdefault(place, {})
                    at_place[name] = at_place.get(name, 0) | sources
                    if index < ends[number]:
                        yield use, sources
                        continue
                    for block, fresh in _decide(number, sources & ~self._floats, deciding, blocks):
                        first = uses.first_sites[block]
                        yield from ((inner, fresh) for inner in range(first, first + ends[block]))

        propagate(self._own, flow, BITS)
        return Flow(tuple(blocks), reads)

    def _result(self, site: int, arriving: int, follow: Follow) -> int:
        """Return the sources of an instruction's results, given some of its own and of its operands."""
        instruction = self._uses.instructions[site]
        if instruction.opcode in COMPARISONS and follow is Follow.VALUES:
            return 0
        if instruction.opcode in RETURNS_OTHER_VALUE:
            return arriving & ~self._floats | self._own.get(site, 0)
        if arriving & self._bits[OtherSource.LOADED] and _converts_to_integer(instruction):
            return arriving | self._bits[OtherSource.FLOAT_INDEX]
        return arriving

    def _sites_of_uses(self, site: int, name: str) -> tuple[int, ...]:
        key = site, name
        if key not in self._used_at:
            self._used_at[key] = tuple(self._uses.uses(site, name))
        return self._used_at[key]


def _decide(
    number: int, added: int, deciding: Sequence[Collection[int]], blocks: list[int]
) -> Iterator[tuple[int, int]]:
    """Add sources to the blocks that a terminator decides, and to those that they decide; yield what is new of each."""
    left = [(number, added)]
    while left:
        number, added = left.pop()
        for block in deciding[number]:
            if fresh := added & ~blocks[block]:
                blocks[block] |= fresh
                left.append((block, fresh))
                yield block, fresh


def _converts_to_integer(instruction: Instruction) -> bool:
    """Return whether an instruction converts a floating-point number to an integer."""
    types = [one for one in instruction.modifiers if one.lstrip("busf").isdigit() or one == "bf16"]
    return instruction.opcode == "cvt" and len(types) == 2 and types[1] in FLOAT_TYPES and types[0] not in FLOAT_TYPES


@lru_cache(maxsize=8)  # as many as `kernel_graph` keeps
def taint_of(ptx: str, entry: str) -> Taint:
    """Return the flows of a kernel of a PTX text.

    Raises
    ------
    MalformedKernelError
        If no graph can be made of it.
    """
    return Taint(*kernel_graph(ptx, entry))
