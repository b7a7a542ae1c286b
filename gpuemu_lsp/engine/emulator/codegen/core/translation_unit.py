"""A translation unit: a program, its analyses, and the assumptions under which it is translated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.emulator.abi.states import Instrumentation
from gpuemu_lsp.engine.emulator.analysis.block_claims import NO_CLAIMS, BlockClaims
from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness
from gpuemu_lsp.engine.emulator.analysis.race_candidates import NO_RACE_CANDIDATES, RaceCandidates
from gpuemu_lsp.engine.emulator.ir.lattice import ThreadBlockShape, VectorShape
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Program


@dataclass(frozen=True, slots=True)
class TranslationUnit:
    """A program, its analyses, and the assumptions under which it is translated; equal units give equal code."""

    program: Program
    graph: ControlFlowGraph
    liveness: Liveness
    divergence: DivergenceInfo
    block_shape: ThreadBlockShape
    scalar_pc: bool
    """Whether this is the scalar-PC version: nothing is assumed, and each lane has its own program counter."""
    symbol_indices: Mapping[str, int]
    """Index of each module variable in the launch's symbol table."""
    context_offsets: Mapping[str, int]
    """Byte offset, in a warp's context, of each register that outlives a block; equal in all versions of a program."""
    in_memory: frozenset[str]
    """Registers that stay in the context: each access is a load or store, but suspension and dispatch cost nothing."""
    handover_shapes: Mapping[str, VectorShape]
    """Shapes in which registers are saved when a warp is handed to another version: those of the fallback, which
    speculates on nothing, so that they are at least as general as the shapes of every specialised version."""
    race_candidates: RaceCandidates = NO_RACE_CANDIDATES
    """Accesses that the race detector instruments."""
    claims: BlockClaims = NO_CLAIMS
    """Accesses that claim memory, as other blocks are executed at the same time."""
    checked: bool = True
    """Whether memory accesses are checked; without checks the kernel must be correct."""
    pointer_parameters: Mapping[str, int] = field(default_factory=dict)
    """Number of the kernel parameter that an address register is derived from."""
    noting: Instrumentation = Instrumentation.NONE
    """What the code notes for the host besides events."""
    baseline: bool = False
    """Whether this is baseline code, which is to compile fast: accesses become calls of the device library."""
    speculated_uniform: frozenset[int] = frozenset()
    """Blocks whose branch is speculated to be uniform; where it is not, the fallback takes over the warp."""
    wide: bool = False
    """Whether the arena may be larger than 2 GiB, so that 32 bits of index do not suffice."""

    @property
    def coverage(self) -> bool:
        """Whether the code records reached blocks and branch outcomes."""
        return self.noting is Instrumentation.COVERAGE

    @property
    def counting(self) -> bool:
        """Whether the code counts executions and records the address of every access."""
        return self.noting is Instrumentation.COUNTERS

    @property
    def recording(self) -> bool:
        """Whether the code records the results of all instructions."""
        return self.noting is Instrumentation.RECORDING


def registers_with_slots(program: Program, liveness: Liveness) -> tuple[str, ...]:
    """Return the registers whose value must be stored: used in several blocks, live into one, or written under a guard.

    Lanes in which the guard is false keep the old value, which therefore must exist.
    """
    first_block: dict[str, int] = {}
    found: set[str] = set()
    for number, block in enumerate(program.blocks):
        for instruction in block.code:
            names = (*registers_written(instruction), *registers_read(instruction))
            if instruction.guard is not None:
                found.update(registers_written(instruction))
            # Used in a second block: the values must travel between them.
            for name in names:
                if first_block.setdefault(name, number) != number:
                    found.add(name)
        for name in terminator_reads(block):
            if first_block.setdefault(name, number) != number:
                found.add(name)
        # Also a register used in one block only, but around a loop, or in block 0 before it is written.
        found.update(liveness.registers(liveness.live_in[number]))
    # Sorted, so that offsets are the same in every process: cached code contains them.
    return tuple(sorted(name for name in found if name in program.registers))


def used_registers(program: Program) -> frozenset[str]:
    """Return the registers that any instruction or terminator reads."""
    names: set[str] = set()
    for block in program.blocks:
        names.update(terminator_reads(block))
        for instruction in block.code:
            names.update(registers_read(instruction))
    return frozenset(names)
