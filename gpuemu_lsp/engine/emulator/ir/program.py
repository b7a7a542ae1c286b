"""One kernel as the emulator runs it: a flat graph of basic blocks, device functions expanded where they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.ptx.model import Guard, Instruction, Operand, Register, Symbol, Variable

FUNCTIONS = 0x7FFF_0000_0000_0000
"""Addresses from here on stand for functions."""

EXIT = -1
"""The target of an edge that ends the thread."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Go on at ``target``."""

    target: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Go to ``taken`` where the guard holds, else to ``other``."""

    guard: Guard
    taken: int
    other: int


@dataclass(frozen=True, slots=True)
class Switch:
    """``brx.idx``: go to ``targets[index]`` (section 9.7.12.2)."""

    index: Operand
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BarrierSync:
    """Arrive at a barrier of the thread block, then go on at ``target``. The block holds nothing else."""

    instruction: Instruction
    target: int


@dataclass(frozen=True, slots=True)
class Trap:
    """End the launch: a trap, a failed assert, or an instruction that cannot be run (its rule and message)."""

    instruction: Instruction
    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Return:
    """Return from a function that is called by itself: the target lies on the thread's stack."""

    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecursiveCall:
    """Call a function that calls itself: go to ``callee``, come back to ``target``; see :class:`Return`.

    What ``target`` needs is pushed before and popped after, except what the call gives: the variables ``results``.
    """

    callee: int
    target: int
    results: tuple[str, ...]
    instruction: Instruction


Terminator: TypeAlias = "Jump | Branch | Switch | BarrierSync | Trap | Return | RecursiveCall"


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions without a branch in between, and how the block ends.

    A warp collective comes first in its block, so that lanes can wait for each other at the start of it.
    """

    code: tuple[Instruction, ...]
    terminator: Terminator

    @property
    def targets(self) -> tuple[int, ...]:
        """The blocks control can go to (``EXIT`` among them)."""
        end = self.terminator
        if isinstance(end, Jump | BarrierSync):
            return (end.target,)
        if isinstance(end, Branch):
            return (end.taken, end.other)
        if isinstance(end, Switch):
            return end.targets
        if isinstance(end, RecursiveCall):
            return (end.callee, end.target)
        return ()


@dataclass(frozen=True, slots=True)
class VariableSlot:
    """Where a variable lies in its window: byte offset and size."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel, flattened. Block 0 is the entry; a block's number is its place in the order of execution.

    ``registers`` maps register names to PTX types. ``params``, ``shared`` and ``local`` say where variables lie in
    their windows; ``dynamic_shared`` is the offset of the dynamic part, ``shared_alignment`` its alignment.
    """

    name: str
    blocks: tuple[BasicBlock, ...]
    registers: Mapping[str, str]
    params: Mapping[str, VariableSlot]
    param_bytes: int
    shared: Mapping[str, VariableSlot]
    dynamic_shared: int
    local: Mapping[str, VariableSlot]
    local_bytes: int
    variables: Mapping[str, Variable] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    recursive: bool = False
    max_threads: tuple[int, ...] = ()

    @property
    def copies(self) -> bool:
        """Whether the kernel copies asynchronously."""
        return any(instruction.opcode == "cp" for block in self.blocks for instruction in block.code)

    @property
    def allocates(self) -> bool:
        """Whether the kernel calls ``malloc``."""
        calls = (i for block in self.blocks for i in block.code if i.opcode == "call")
        return any(isinstance(i.operands[1], Symbol) and i.operands[1].name == "malloc" for i in calls)

    @property
    def grid_workspace(self) -> bool:
        """Whether the kernel looks for the workspace of a cooperative launch."""
        return any(
            isinstance(operand, Register) and operand.name == "%envreg2"
            for block in self.blocks
            for instruction in block.code
            for operand in instruction.operands
        )

    def function_address(self, name: str) -> int | None:
        """Return the number that stands for the address of a function; nothing can be read there."""
        return FUNCTIONS + 16 * self.functions.index(name) if name in self.functions else None
