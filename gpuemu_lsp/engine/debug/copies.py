"""Asynchronous copies of a recorded block (``cp.async``): issued at one tick, in memory at another one.

As the emulator executes them: the target has no value from the issue to the wait of the issuing thread that covers the
copy's group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import TENSOR_MAP, is_bulk_copy
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Negated, Operand, Register

WORD: Final = 4
"""Bytes in which copies are recorded."""

ReadOperand = Callable[[Operand, int, int], int | None]
"""Returns the bits of an operand in a thread before a tick; of an address its place in memory."""


_UNFOLLOWED: Final[tuple[tuple[str, Callable[[Instruction], bool]], ...]] = (
    ("bulk copies", is_bulk_copy),
    ("mbarrier objects", lambda instruction: instruction.opcode == "mbarrier"),
    ("surface stores", lambda instruction: instruction.opcode == "sust"),
    ("changes of tensor maps", lambda instruction: instruction.opcode == TENSOR_MAP),
)


def unfollowed_writers(program: Program) -> tuple[str, ...]:
    """Return, in words, what writes memory in a program and is not in a recording."""
    code = [one for block in program.blocks for one in block.code]
    return tuple(name for name, writes in _UNFOLLOWED if any(writes(one) for one in code))


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """A copy of ``size`` bytes by a thread; ``given`` are read, the rest is zero. ``delivered`` None is never.

    One that was issued before the recorded window has read its ``data`` there.
    """

    thread: int
    issued: int
    delivered: int | None
    target: int
    source: int
    size: int
    given: int
    data: bytes | None = None


@dataclass(slots=True)
class _Lane:
    """Copies of one thread that have not been waited for, with their groups, and the groups it has committed."""

    pending: list[tuple[int, AsyncCopy]]
    committed: int = 0


def async_copies(history: History, read: ReadOperand) -> list[AsyncCopy]:
    """Return the copies of all threads."""
    lanes = _at_entry(history)
    found: list[AsyncCopy] = []
    for thread, tick, instruction in _executed(history):
        lane, words = lanes[thread], instruction.modifiers[1:]
        if words == ("commit_group",):
            lane.committed += 1
        elif words[:1] in (("wait_all",), ("wait_group",)) or words[:2] == ("mbarrier", "arrive"):
            # The arrival that waits for the copies delivers them, as late as is allowed.
            groups = instruction.operands[0].bits if words == ("wait_group",) else -1  # type: ignore[union-attr]
            covered = [one for group, one in lane.pending if groups < 0 or group < lane.committed - groups]
            lane.pending = [(group, one) for group, one in lane.pending if not any(one is copy for copy in covered)]
            found += [_delivered(one, tick) for one in covered]
        elif is_async_copy(instruction):
            copy = _issued(instruction, thread, tick, read)
            if copy is not None:
                lane.pending.append((lane.committed, copy))
    return found + [one for lane in lanes.values() for _, one in lane.pending]


def _at_entry(history: History) -> dict[int, _Lane]:
    """Return the copies that are pending when the recording begins."""
    lanes: dict[int, _Lane] = defaultdict(lambda: _Lane([]))
    entry = history.recording.entry
    if entry is not None:
        for thread, count in enumerate(entry.committed):
            lanes[thread].committed = count
        for pending in entry.copies:
            size, issued = len(pending.data), history.first - 1
            copy = AsyncCopy(pending.thread, issued, None, pending.target, 0, size, size, pending.data)
            lanes[pending.thread].pending.append((pending.group, copy))
    return lanes


def _executed(history: History) -> Iterator[tuple[int, int, Instruction]]:
    """Yield the executions of copies, commits and waits in order of time: thread, tick and instruction."""
    sites = [
        [(place, one) for place, one in enumerate(block.code) if one.opcode == "cp" and not is_bulk_copy(one)]
        for block in history.program.blocks
    ]
    for run in np.flatnonzero(np.isin(history.block, [number for number, found in enumerate(sites) if found])).tolist():
        active = np.flatnonzero(history.active(np.array([run]))[0]).tolist()
        for place, instruction in sites[int(history.block[run])]:
            for lane in active:
                yield int(history.warp[run]) * WARP_SIZE + lane, int(history.start[run]) + place, instruction


def _issued(instruction: Instruction, thread: int, tick: int, read: ReadOperand) -> AsyncCopy | None:
    """Return a copy that a thread issues; None where its guard is false, or an address is not known."""
    guard = instruction.guard
    if guard is not None and bool(read(guard.register, thread, tick)) == guard.negated:
        return None
    target, source, size, *rest = instruction.operands
    places = read(target, thread, tick), read(source, thread, tick)
    if not isinstance(size, Immediate) or places[0] is None or places[1] is None:
        return None
    choice = rest[0] if rest and "L2::cache_hint" not in instruction.modifiers else None
    given = size.bits
    if isinstance(choice, Negated):
        given = size.bits if read(choice.register, thread, tick) else 0
    elif isinstance(choice, Immediate):
        given = min(choice.bits, size.bits)
    elif isinstance(choice, Register):
        bits = read(choice, thread, tick) or 0
        given = (0 if bits else size.bits) if choice.name.startswith("%p") else min(bits, size.bits)
    return AsyncCopy(thread, tick, None, places[0], places[1], size.bits, given)


def _delivered(copy: AsyncCopy, tick: int) -> AsyncCopy:
    return replace(copy, delivered=tick)


def is_async_copy(instruction: Instruction) -> bool:
    """Return whether an instruction issues a copy."""
    return (
        instruction.opcode == "cp"
        and not is_bulk_copy(instruction)
        and len(instruction.operands) > 2
        and isinstance(instruction.operands[0], Address)
    )
