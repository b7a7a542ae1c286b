"""Value flow: the registers that a loaded value reaches, and loads that belong to a comparison or to an atomic.

Flow-insensitive def-use chains. The race detector asks two questions about a load: is it a flag that a thread polls,
and is it the plain read with which a compare-and-swap loop begins? Both depend on where the loaded value goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_read, registers_written
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Register

_AFTER_READ = frozenset({"cas", "min", "max", "and", "or"})
"""Atomic operations that often follow a plain read of the same address, which prepares them or makes them needless."""


class ValueFlow:
    """Def-use chains over registers and stack slots, whatever path control takes.

    Unoptimised PTX keeps every variable on the stack. An address as written (base register and offset) therefore counts
    as a register: a store to it defines it, and a load uses it.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._next: dict[str, set[str]] = defaultdict(set)
        self._loaded: dict[str, list[str]] = defaultdict(list)
        self._copied: dict[str, set[str]] = defaultdict(set)
        for instruction in instructions:
            targets, sources = set(registers_written(instruction)), set(registers_read(instruction))
            address = address_operand(instruction)
            # An atomic does not pass a value on: what it returns may be another thread's.
            if address is not None and instruction.opcode in ("ld", "st"):
                slot = _slot(address)
                if instruction.opcode == "st":
                    targets.add(slot)
                else:
                    # The loaded value stems from the stored one, not from the address.
                    sources = {slot}
                    for name in targets:
                        self._loaded[name].append(slot)
            for name in targets:
                # "" stands for a definition that is not a copy.
                copied = instruction.opcode in ("mov", "cvta") and len(sources) == 1
                self._copied[name].add(next(iter(sources)) if copied else "")
            # Every source flows into every target, guards and base addresses included: more flow is conservative.
            for source in sources:
                self._next[source] |= targets

    def reached(self, names: Iterable[str]) -> set[str]:
        """Return all registers and stack slots that values of ``names`` may reach, ``names`` included."""
        seen = set(names)
        left = list(seen)
        while left:
            for name in self._next[left.pop()]:
                if name not in seen:
                    seen.add(name)
                    left.append(name)
        return seen

    def feeds_comparison(self, load: Instruction, registers: Mapping[str, str]) -> bool:
        """Whether a loaded value reaches a predicate."""
        return any(registers.get(name) == "pred" for name in self.reached(registers_written(load)))

    def same_address_as_any(self, load: Instruction, others: Sequence[Instruction]) -> bool:
        """Whether a load has the same address as one of ``others``, itself not counted."""
        names = self._names(address_operand(load))
        return any(other is not load and names & self._names(address_operand(other)) for other in others)

    def precedes_atomic(self, load: Instruction, atomics: Sequence[Instruction], registers: Mapping[str, str]) -> bool:
        """Whether a plain load reads the address of an atomic operation that uses the value or depends on it.

        That is how a compare-and-swap loop begins, and how ``if (v > *m) atomicMax(m, v)`` saves work. A stale value
        does no harm: the atomic operation compares again.
        """
        names = self._names(address_operand(load))
        near = [
            atomic
            for atomic in atomics
            if _AFTER_READ & set(atomic.modifiers) and names & self._names(address_operand(atomic))
        ]
        if not near:
            return False
        # The value is an operand of the atomic operation, or of the comparison that decides whether it is executed.
        reached = self.reached(registers_written(load))
        values = {name for atomic in near for name in registers_read(atomic)}
        return bool(reached & values) or any(registers.get(name) == "pred" for name in reached)

    def _names(self, address: Address | None) -> set[str]:
        """Return the names of an address: as written, and by the stack slots its base was loaded from.

        In unoptimised PTX each use of a pointer variable loads it into a new register.
        """
        if address is None:
            return set()
        if not isinstance(address.base, Register):
            return {_slot(address)}
        # Two names are enough to recognise an address: optimised code keeps it in a register, unoptimised code on the
        # stack.
        name = self._original(address.base.name)
        names = {_slot(Address(Register(name), address.offset))}
        return names | {f"*{slot}+{address.offset}" for slot in self._loaded.get(name, ())}

    def _original(self, name: str) -> str:
        """Return the register that a register is a copy of, followed back as long as each has one definition."""
        # A loop-carried copy leads back to itself.
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            sources = self._copied.get(name, set())
            source = next(iter(sources)) if len(sources) == 1 else ""
            if source:
                name = source
        return name


def _slot(address: Address) -> str:
    return f"[{address.base}+{address.offset}]"
