"""Registers of ``wgmma`` products in flight (PTX ISA section 9.7.15.7): accesses to them, found by data flow.

A product's accumulators, and the registers of A, belong to it until a ``wgmma.wait_group`` that covers its group; what
other instructions write to them before it must be followed by a ``wgmma.fence``. Both are properties of the program
text. They are computed over the control-flow graph, and an event is put before each instruction that breaks a rule, so
that only those are reported that a launch executes.

Only what holds on *all* paths counts: the state at a join is the intersection. A ``mov`` between registers copies the
state of its source, and is not an access: compilers write them between products, and ptxas removes them again. The same
is true of constants that initialise accumulators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_EVENT
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written
from gpuemu_lsp.engine.emulator.ir.program import EXIT, BasicBlock, Terminator
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Register


class RegisterFault(IntEnum):
    """Rules that an instruction breaks, in the second modifier of a ``fault`` event."""

    READ_BEFORE_WAIT = 0
    READ_UNCOMMITTED = 1
    NO_FENCE = 2
    CHANGED_WITHOUT_FENCE = 3


@dataclass(frozen=True, slots=True)
class _State:
    """What holds before an instruction, on all paths that lead there.

    ``flying`` maps registers of products to the number of groups committed since, 0 for a product that is in none yet.
    ``changed`` has registers that other instructions have written since the last fence. ``fenced`` says if there may
    have been a fence at all.
    """

    flying: Mapping[str, int] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    fenced: bool = False


def _joined(one: _State, other: _State) -> _State:
    both = one.flying.keys() & other.flying.keys()
    # The larger number is the one that a wait covers earlier.
    flying = {name: max(one.flying[name], other.flying[name]) for name in both}
    return _State(flying, one.changed & other.changed, one.fenced or other.fenced)


def with_register_faults(codes: Sequence[list[Instruction]], ends: Sequence[Terminator]) -> list[list[Instruction]]:
    """Return the code of all blocks with an event before each instruction that breaks a rule."""
    if not any(one.opcode == GROUP_EVENT for code in codes for one in code):
        return [*codes]
    blocks = [BasicBlock(tuple(code), end) for code, end in zip(codes, ends, strict=True)]
    before: dict[int, _State] = {0: _State()}
    left = [0]
    # From an optimistic start, in which blocks not reached yet constrain nothing: the greatest fixed point.
    while left:
        number = left.pop()
        after, _ = _transfer(blocks[number].code, before[number])
        for target in set(blocks[number].targets) - {EXIT}:
            known = before.get(target)
            joined = after if known is None else _joined(known, after)
            if joined != known:
                before[target] = joined
                left.append(target)
    return [
        _transfer(block.code, before[number])[1] if number in before else list(block.code)
        for number, block in enumerate(blocks)
    ]


def _transfer(code: Sequence[Instruction], state: _State) -> tuple[_State, list[Instruction]]:
    """Return the state after a block, and its code with events."""
    flying, changed, fenced = dict(state.flying), set(state.changed), state.fenced
    result: list[Instruction] = []
    # A product is lowered to instructions of its own, between its two events.
    inside = False
    for one in code:
        fault: RegisterFault | None = None
        if one.opcode == GROUP_EVENT:
            kind = one.modifiers[0]
            if kind == "fence":
                changed.clear()
                fenced = True
            elif kind == "commit_group":
                flying = {name: age + 1 for name, age in flying.items()}
            elif kind == "wait_group":
                allowed = one.operands[0].bits if one.operands and isinstance(one.operands[0], Immediate) else 0
                flying = {name: age for name, age in flying.items() if age <= allowed}
            elif kind == "mma_async":
                inside = True
                names = one.modifiers[-1].split(",")
                if not fenced:
                    fault = RegisterFault.NO_FENCE
                elif not changed.isdisjoint(names):
                    fault = RegisterFault.CHANGED_WITHOUT_FENCE
            elif kind == "issued":
                inside = False
                flying |= dict.fromkeys(one.modifiers[-1].split(","), 0)
        elif not inside:
            fault = _access(one, flying, changed)
        if fault is not None:
            event = replace(one, opcode=GROUP_EVENT, modifiers=("fault", str(int(fault))), operands=(), guard=None)
            result.append(event if one.guard is None else replace(event, guard=one.guard))
        result.append(one)
    return _State(flying, frozenset(changed), fenced), result


def _access(one: Instruction, flying: dict[str, int], changed: set[str]) -> RegisterFault | None:
    """Apply an instruction that is not part of a product; return the rule that it breaks."""
    written = registers_written(one)
    source = one.operands[1] if one.opcode == "mov" and len(one.operands) == 2 else None
    if isinstance(source, Register | Immediate) and one.guard is None:
        copied = source.name if isinstance(source, Register) else ""
        for name in written:
            flying.pop(name, None)
            changed.discard(name)
            if copied in flying:
                flying[name] = flying[copied]
            if copied in changed:
                changed.add(name)
        return None
    read = [flying[name] for name in registers_read(one) if name in flying]
    for name in written:
        flying.pop(name, None)
        changed.add(name)
    if not read:
        return None
    return RegisterFault.READ_BEFORE_WAIT if max(read) else RegisterFault.READ_UNCOMMITTED
