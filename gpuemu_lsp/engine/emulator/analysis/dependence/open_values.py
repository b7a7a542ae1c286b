"""Open values: those of which some are given, such as what memory holds, and what follows from them.

A result is open if an operand is, and if an open condition decides whether the instruction is executed. Conditions
decide the execution of the blocks that are control-dependent on them: see :mod:`.control`. What a definition gives a
register is followed to its uses: a loop counter that begins as the index of the thread, in the same register, makes no
use of that index in front of the loop open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.dependence.control import control_dependences
from gpuemu_lsp.engine.emulator.analysis.value_flow import DefinitionUses
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Instruction

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OpenState:
    """The ``blocks`` whose execution depends on open values, and the registers with one, where they are read."""

    blocks: Set[int]
    _reads: Mapping[tuple[int, int], Set[str]]
    _ends: tuple[int, ...]

    def reads(self, block: int, index: int) -> Set[str]:
        """Return the registers that an instruction of a block reads and that hold an open value."""
        return self._reads.get((block, index), _NONE)

    def reads_at_end(self, block: int) -> Set[str]:
        """Return the registers that the terminator of a block reads and that hold an open value."""
        return self.reads(block, self._ends[block])


def open_state(
    program: Program, graph: ControlFlowGraph, is_source: Callable[[Instruction], bool], closed: Collection[str]
) -> OpenState:
    """Return what is open, given the instructions whose results are.

    If there are opcodes in ``closed``, the outcome of conditions is no matter: their results are not open, and no
    block is.
    """
    uses, deciding = DefinitionUses(program), control_dependences(graph)
    ends = tuple(len(block.code) for block in program.blocks)
    reads: dict[tuple[int, int], set[str]] = {}
    blocks: set[int] = set()
    defined: set[int] = set()
    waiting = [site for site, one in uses.instructions.items() if is_source(one)]
    while waiting:
        site = waiting.pop()
        if site in defined or uses.instructions[site].opcode in closed:
            continue
        defined.add(site)
        for name in registers_written(uses.instructions[site]):
            for use in uses.uses(site, name):
                number, index = uses.place_of(use)
                reads.setdefault((number, index), set()).add(name)
                if index < ends[number]:
                    waiting.append(use)
                elif not closed:
                    opened = _opened(number, deciding, blocks)
                    blocks |= opened
                    waiting += [uses.first_sites[one] + place for one in opened for place in range(ends[one])]
    return OpenState(blocks, reads, ends)


def _opened(number: int, deciding: list[set[int]], known: Set[int]) -> set[int]:
    """Return the blocks, but for the known ones, that the terminator of a block decides, and those that they decide."""
    found, waiting = set[int](), [number]
    while waiting:
        more = deciding[waiting.pop()] - known - found
        found |= more
        waiting += more
    return found
