"""A kernel in the emulator's IR: a flat graph of basic blocks, with device functions inlined where they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.ir.opcodes import CLUSTER_ADDRESS, GROUP_EVENT, SEND, TENSOR_MEMORY, is_bulk_copy
from gpuemu_lsp.engine.ptx.model import Guard, Instruction, Location, Operand, Register, Symbol, Variable

_FUNCTION_ADDRESSES = 0x7FFF_0000_0000_0000
"""Base of the addresses that stand for functions: not canonical in x86-64, so no buffer can lie there."""

EXIT = -1
"""The successor of a block that ends the thread."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Unconditional branch to ``target``."""

    target: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Conditional branch: to ``taken`` where the guard holds, else to ``not_taken``."""

    guard: Guard
    taken: int
    not_taken: int


@dataclass(frozen=True, slots=True)
class Switch:
    """``brx.idx``: branch to ``targets[index]`` (PTX ISA section 9.7.12.2)."""

    index: Operand
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BarrierSync:
    """Barrier of the thread block, after which the thread continues at ``target``.

    The block has no other instruction, so that a warp that waits can be suspended and resumed between blocks.
    """

    instruction: Instruction
    target: int


@dataclass(frozen=True, slots=True)
class Trap:
    """Abort of the launch: ``trap``, a failed assert, or what cannot be run; its rule, message and cause."""

    instruction: Instruction
    rule: str
    message: str
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """Return from a recursive function: the return address is on the thread's call stack."""

    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecursiveCall:
    """Call of a recursive function, which is not inlined: ``callee`` is its entry, ``target`` the return address.

    The registers live in ``target`` are pushed before the call and popped after it, except the variables ``results``,
    which the callee sets. See :class:`Return`.
    """

    callee: int
    target: int
    results: tuple[str, ...]
    instruction: Instruction


Terminator: TypeAlias = "Jump | Branch | Switch | BarrierSync | Trap | Return | RecursiveCall"


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Straight-line instructions and the terminator that follows them.

    A warp collective (``.sync``) is always the first instruction, so that lanes can wait for each other at block entry.
    """

    code: tuple[Instruction, ...]
    terminator: Terminator

    @property
    def targets(self) -> tuple[int, ...]:
        """The successors, ``EXIT`` included."""
        end = self.terminator
        if isinstance(end, Jump | BarrierSync):
            return (end.target,)
        if isinstance(end, Branch):
            return (end.taken, end.not_taken)
        if isinstance(end, Switch):
            return end.targets
        if isinstance(end, RecursiveCall):
            # The edge to the return address stands for all the Returns of the callee, which have no successors.
            return (end.callee, end.target)
        return ()


@dataclass(frozen=True, slots=True)
class VariableSlot:
    """Placement of a variable in its state space window: offset and size in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class InlinedCall:
    """An inlined call of ``function``: at line ``text_line`` of the PTX, in the call ``caller``, 0 the kernel.

    Instructions of a function without a line table have the location of the call, ``site``.
    """

    function: str
    caller: int
    text_line: int
    site: Location | None = None


@dataclass(frozen=True)
class Program:
    """A kernel as one control-flow graph. Block 0 is the entry; :mod:`.analysis.cfg` numbers blocks in execution order.

    ``registers`` maps register names to PTX types. ``params``, ``shared`` and ``local`` give the placement of variables
    in their windows; ``dynamic_shared`` is the offset of dynamic shared memory. ``functions`` are all functions of the
    module, for calls through pointers; ``max_threads`` is ``.reqntid`` or ``.maxntid``, ``required_cluster`` is
    ``.reqnctapercluster``; each is empty without such a directive.
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
    required_cluster: tuple[int, ...] = ()
    entry_registers: int = 0
    """Registers of a thread at the start, from a bound in the text; 0 without one."""
    calls: Mapping[int, InlinedCall] = field(default_factory=dict)
    """The inlined calls by ``Instruction.call``; registers and local variables of call 3 have the prefix ``3:``."""

    @cached_property
    def has_async_copies(self) -> bool:
        """Whether the kernel contains ``cp.async``, other than bulk copies."""
        return any(i.opcode == "cp" and not is_bulk_copy(i) for block in self.blocks for i in block.code)

    @cached_property
    def has_bulk_copies(self) -> bool:
        """Whether the kernel contains ``cp.async.bulk``."""
        return any(is_bulk_copy(i) for block in self.blocks for i in block.code)

    @cached_property
    def has_async_proxy(self) -> bool:
        """Whether the kernel contains ``cp.async.bulk``, ``wgmma`` or ``tcgen05``, whose accesses no thread makes."""
        events = (GROUP_EVENT, TENSOR_MEMORY)
        return self.has_bulk_copies or any(i.opcode in events for block in self.blocks for i in block.code)

    @cached_property
    def has_tensor_memory(self) -> bool:
        """Whether the kernel contains operations on tensor memory."""
        return any(i.opcode == TENSOR_MEMORY for block in self.blocks for i in block.code)

    @cached_property
    def waits_for_phases(self) -> bool:
        """Whether the kernel tests ``mbarrier`` objects: in a loop, until others arrive."""
        code = (i for block in self.blocks for i in block.code if i.opcode == "mbarrier")
        return any(not {"test_wait", "try_wait"}.isdisjoint(i.modifiers) for i in code)

    @cached_property
    def spans_blocks(self) -> bool:
        """Whether the kernel contains addresses in the shared memory of other blocks of its cluster."""
        return any(
            i.opcode in ("mapa", CLUSTER_ADDRESS, SEND) or "multicast::cluster" in i.modifiers
            for block in self.blocks
            for i in block.code
        )

    @cached_property
    def calls_malloc(self) -> bool:
        """Whether the kernel calls the device ``malloc``."""
        calls = (i for block in self.blocks for i in block.code if i.opcode == "call")
        return any(isinstance(i.operands[1], Symbol) and i.operands[1].name == "malloc" for i in calls)

    @cached_property
    def reads_grid_workspace(self) -> bool:
        """Whether the kernel reads the address of a cooperative launch's workspace (``%envreg2``)."""
        return any(
            isinstance(operand, Register) and operand.name == "%envreg2"
            for block in self.blocks
            for instruction in block.code
            for operand in instruction.operands
        )

    def own_location(self, instruction: Instruction) -> Location | None:
        """Return the location of an instruction without the chain of its call; None if it has only that."""
        call = self.calls.get(instruction.call)
        return instruction.location if call is None else _before_site(instruction.location, call.site)

    def function_address(self, name: str) -> int | None:
        """Return the address that stands for function ``name`` (it cannot be read), None if there is no such."""
        return _FUNCTION_ADDRESSES + 16 * self.functions.index(name) if name in self.functions else None


def _before_site(location: Location | None, site: Location | None) -> Location | None:
    """Return a chain of inlined locations up to a call site, None if it is that of the site."""
    if location is None or location == site:
        return None
    if location.inlined_at is None:
        return location
    return replace(location, inlined_at=_before_site(location.inlined_at, site))
