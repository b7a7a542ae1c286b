"""Events of races, on the line of the read if there is one, with the other access's line; which events are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.ir.accesses import has_block_scope
from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_EVENT, TENSOR_MEMORY, is_bulk_copy
from gpuemu_lsp.engine.emulator.launch.access_messages import AccessedBytes
from gpuemu_lsp.engine.emulator.versions.race_facts import RaceFacts
from gpuemu_lsp.engine.execution import Access, Dim3, Event
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.ptx.model import Instruction, Location


@dataclass(frozen=True, slots=True)
class RaceAccess:
    """One access of a race. ``number`` is the thread number, ``spread`` that of the shadow cell's epoch."""

    instruction: Instruction
    site: int
    number: int
    wrote: bool
    thread: Dim3
    block: Dim3
    spread: int = 0

    @property
    def location(self) -> Location | None:
        """Source location of the instruction."""
        return self.instruction.location

    @property
    def atomic(self) -> bool:
        """Whether it is an atomic operation."""
        return self.instruction.opcode in ("atom", "red")

    @property
    def operation(self) -> str:
        """What the asynchronous proxy does, which no thread does; empty for an access of a thread."""
        if is_bulk_copy(self.instruction):
            return "bulk copy"
        if self.instruction.opcode == TENSOR_MEMORY:
            return "copy" if self.instruction.modifiers[0] == "cp" else "product"
        return "product" if self.instruction.opcode == GROUP_EVENT else ""

    @property
    def name(self) -> str:
        """Name of the instruction."""
        return (
            f"wgmma.{self.instruction.modifiers[0]}"
            if self.instruction.opcode == GROUP_EVENT
            else self.instruction.name
        )

    @property
    def verb(self) -> str:
        """The access as a verb."""
        return "atomically updates" if self.atomic else self.access.value

    @property
    def access(self) -> Access:
        """What it does with the memory."""
        return Access.ATOMIC if self.atomic else Access.WRITE if self.wrote else Access.READ


def race_event(
    space: str,
    one: RaceAccess,
    other: RaceAccess,
    accessed: AccessedBytes,
    count: int,
    facts: RaceFacts,
    *,
    within_program: bool = False,
    wavefront: int = 32,
) -> Event:
    """Return the event of a race between two accesses; either may have come first.

    ``within_program``: between two warps of one Triton program. ``wavefront`` is the number of lanes that the source is
    written for.
    """
    # The wrong value shows in the read: the finding stands there.
    first, second = (other, one) if one.wrote and not other.wrote and not _is_unnamed(other, one) else (one, other)
    # Accesses through pointers into no known buffer still have a memory space.
    place = f"{space} memory" if accessed.name is None else accessed.place
    one_thread, other_thread = _thread_text(first), _thread_text(second, first)
    message = f"{one_thread} {first.verb} {place} and {other_thread} {second.verb} it without synchronization"
    # A scope that is too narrow makes the race, whatever the value is used for.
    scope = _scope_text(first, second, facts)
    is_pre_check = not scope and _is_pre_check(first, second, facts)
    # Whatever makes the program, the order of the proxy's operations is its own.
    within_program = within_program and not (first.operation or second.operation)
    if within_program:
        message += "; Triton does not order a load after a store by another warp of its program: "
        message += "call tl.debug_barrier() between them"
    elif first.operation or second.operation:
        message += _asynchronous_text(one, other)
    elif scope:
        message += scope
    elif {first.site, second.site} & facts.volatile_locks:
        message += "; the read and the write that take this lock are not one atomic operation: use atomicCAS()"
    elif is_pre_check:
        message += "; if a stale value is harmless here, access it through cuda::atomic_ref or volatile"
    # Code from before Volta relies on lock step inside a warp: without the hint the finding looks wrong.
    elif wavefront == 32 and _same_warp(first, second):
        message += "; lanes of a warp need not execute in lockstep"
    rule, cause = f"memory/{space}-race", Cause.WITHIN_PROGRAM if within_program else None
    if wavefront > 32 and first.block == second.block and first.number // wavefront == second.number // wavefront:
        rule, cause = "engine/not-executed", Cause.LOCKSTEP
        message += f"; lanes of a wavefront of {wavefront} may rely on lockstep, which warps of 32 do not have"
    return Event(
        rule,
        message,
        first.location,
        first.name,
        first.thread,
        first.block,
        accessed.name,
        accessed.offset,
        accessed.size,
        count,
        other=second.location,
        data={
            "other_thread": None if second.operation or _is_unnamed(second, first) else list(second.thread),
            "other_block": list(second.block),
            "other_instruction": second.name,
        },
        severity=Severity.WARNING if is_pre_check else None,
        cause=cause,
        access=first.access,
        other_access=second.access,
    )


def _scope_text(one: RaceAccess, other: RaceAccess, facts: RaceFacts) -> str:
    """Return the part of the message that says which scope is too narrow, if one is; empty for accesses of a block."""
    if one.block == other.block and not max(one.spread, other.spread) >= 3:
        return ""
    for access in (one, other):
        if has_block_scope(access.instruction):
            blocks = f"block {_dims(one.block)} and block {_dims(other.block)}"
            # A merged record may name a thread of the same block.
            both = blocks if one.block != other.block else f"block {_dims(one.block)} and another block"
            return f"; the .cta scope of {access.instruction.opcode} does not include both {both}"
    if not one.atomic and not other.atomic and facts.has_block_fences:
        return "; __threadfence_block() orders accesses for the threads of one block only"
    return ""


def _asynchronous_text(later: RaceAccess, earlier: RaceAccess) -> str:
    """Return the part of the message that says what orders an operation of the asynchronous proxy."""
    if later.operation and not earlier.operation:
        return f"; nothing orders this access before the {later.operation} is issued"
    if is_bulk_copy(earlier.instruction) and earlier.wrote:
        return "; only a wait for the mbarrier that the copy completes on orders it, or a barrier after another's wait"
    if earlier.instruction.opcode == TENSOR_MEMORY:
        return (
            "; only a wait for an mbarrier that a later `tcgen05.commit` arrives at orders it, or a barrier after one"
        )
    waits = "wgmma.wait_group" if earlier.operation == "product" else "cp.async.bulk.wait_group.read"
    return f"; only `{waits}` orders it, or a barrier after it"


def _is_pre_check(one: RaceAccess, other: RaceAccess, facts: RaceFacts) -> bool:
    """Whether a plain read only decides if the update is needed with which it races: of an atomic, or of one value."""
    for read, update in ((one, other), (other, one)):
        if not read.wrote and update.atomic:
            return facts.is_pre_check_of_atomics(read.site)
        if not read.wrote and update.instruction.opcode == "st":
            return facts.is_pre_check_of_equal_writes(read.site)
    return False


def _same_warp(one: RaceAccess, other: RaceAccess) -> bool:
    # A wider spread names one thread of several blocks or warps: the others may be in any warp.
    return one.number >> 5 == other.number >> 5 and max(one.spread, other.spread) < 2


def _thread_text(access: RaceAccess, other: RaceAccess | None = None) -> str:
    """Describe the thread of an access; after that of ``other`` has been described, as short as is unambiguous."""
    if access.operation:
        at = access.location if other is not None else None
        return f"the {access.operation}" + (f" in line {at.line_of_kernel_file}" if at is not None else "")
    # Naming the same thread twice would make the finding look impossible.
    if other is not None and _is_unnamed(access, other):
        return "another thread of the " + ("warp", "block", "grid")[access.spread - 1]
    text = f"thread {_dims(access.thread)}"
    if other is None or other.block != access.block:
        text += f" of block {_dims(access.block)}"
    return text


def _is_unnamed(access: RaceAccess, other: RaceAccess) -> bool:
    """Whether the cell stands for several threads and names only the one that made the other access, too."""
    return bool(access.spread) and access.number == other.number


def _dims(dims: Dim3) -> str:
    """Return coordinates without trailing zeros: ``3``, ``(3, 1)``, ``(3, 0, 2)``."""
    x, y, z = dims
    return f"({x}, {y}, {z})" if z else f"({x}, {y})" if y else str(x)


def merged(events: Iterable[Event]) -> list[Event]:
    """Return one event for each pair of source locations: a race is reported for either access coming second."""
    found: dict[tuple[str, frozenset[Location | None]], Event] = {}
    result: list[Event] = []
    for event in events:
        if not event.rule.endswith("-race"):
            result.append(event)
            continue
        # The detector records one event per site of the later access: two statements that race with each other give
        # two, as each is the later one for some threads.
        key = event.rule, frozenset((event.location, event.other))
        known = found.get(key)
        if known is None:
            found[key] = event
            result.append(event)
        else:
            # A pair of lines may be a mere pre-check at one pair of instructions, and an error at another. Its race may
            # be in one program, and also between programs.
            worse = max(known, event, key=lambda each: (each.severity is None, each.cause is None))
            both = replace(worse, count=known.count + event.count)
            result[result.index(known)] = both
            found[key] = both
    return result


def limited(events: list[Event], limit: int) -> tuple[Event, ...]:
    """Return at most ``limit`` events, in their order: the first of each rule and place before others of the same.

    One statement may be dozens of instructions, as the products of a tile are: its events must not hide the rest.
    """
    first = {(event.rule, event.location): index for index, event in reversed(list(enumerate(events)))}
    chosen = sorted(range(len(events)), key=lambda index: first[events[index].rule, events[index].location] != index)
    return tuple(events[index] for index in sorted(chosen[:limit]))
