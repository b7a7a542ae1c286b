"""What is to be translated: a program, all that is known about it, and the block shape it is translated for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness
from gpuemu_lsp.engine.emulator.analysis.race_candidates import NO_RACE_CANDIDATES, RaceCandidates
from gpuemu_lsp.engine.emulator.ir.lattice import ThreadBlockShape, VectorShape
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Program


@dataclass(frozen=True, slots=True)
class Unit:
    """What is to be translated: a program, all that is known about it, and the block shape it is translated for.

    ``general`` asks for the translation that assumes nothing and lets lanes of a warp run and wait independently.
    ``symbols`` gives each module variable its place in the launch's symbol table.
    """

    program: Program
    graph: ControlFlowGraph
    live: Liveness
    info: DivergenceInfo
    block: ThreadBlockShape
    general: bool
    symbols: Mapping[str, int]
    saved: Mapping[str, int]
    """Byte offset, in a warp's context, of each register that outlives a block."""
    in_memory: frozenset[str]
    """Registers kept in the context all the time: they cost loads and stores, but nothing where warps are resumed."""
    specialised: Mapping[str, VectorShape]
    """Shapes in which a warp is handed to other code: those of the specialised code that takes nothing for granted."""
    tracking: RaceCandidates = NO_RACE_CANDIDATES
    """What the race checker watches."""
    checked: bool = True
    """Whether accesses are checked; if not, the kernel is trusted."""
    pointers: Mapping[str, int] = field(default_factory=dict)
    """Which parameter an address register comes from, by number."""
    covering: bool = False
    """Whether the code notes which blocks and outcomes of branches are reached."""
    counting: bool = False
    """Whether the code counts what it runs and notes the addresses of its accesses."""
    quick: bool = False
    """Whether the code is made to be made quickly: what is long goes into calls of the runtime."""
    together: frozenset[int] = frozenset()
    """Blocks at whose end lanes are taken to stay together; where they do not, the plain code takes the warp over."""


def saved_registers(program: Program, live: Liveness) -> tuple[str, ...]:
    """Return the registers that need a place of their own: seen in several blocks, alive at a start, or guarded."""
    where: dict[str, int] = {}
    homes: set[str] = set()
    for number, block in enumerate(program.blocks):
        for instruction in block.code:
            names = (*registers_written(instruction), *registers_read(instruction))
            if instruction.guard is not None:
                homes.update(registers_written(instruction))
            for name in names:
                if where.setdefault(name, number) != number:
                    homes.add(name)
        for name in terminator_reads(block):
            if where.setdefault(name, number) != number:
                homes.add(name)
        homes.update(live.registers(live.live_in[number]))
    return tuple(sorted(name for name in homes if name in program.registers))


def used_registers(program: Program) -> frozenset[str]:
    """Return the registers that anything reads."""
    names: set[str] = set()
    for block in program.blocks:
        names.update(terminator_reads(block))
        for instruction in block.code:
            names.update(registers_read(instruction))
    return frozenset(names)
