"""Where a loaded value goes: into a decision, or into the atomic operation it was read for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_read, registers_written
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Register

_GUARDED = frozenset({"cas", "min", "max", "and", "or"})
"""Atomic operations that a plain read of the same place often saves, or prepares."""


class ValueFlow:
    """Which registers a value reaches, whatever path control takes; places on the stack count as registers.

    Unoptimised PTX keeps every variable in memory, so a store and a load of one address pass a value on.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._next: dict[str, set[str]] = defaultdict(set)
        self._loaded: dict[str, list[str]] = defaultdict(list)
        self._copied: dict[str, set[str]] = defaultdict(set)
        for instruction in instructions:
            targets, sources = set(registers_written(instruction)), set(registers_read(instruction))
            address = address_operand(instruction)
            if address is not None and instruction.opcode in ("ld", "st"):
                place = _place(address)
                if instruction.opcode == "st":
                    targets.add(place)
                else:
                    sources = {place}
                    for name in targets:
                        self._loaded[name].append(place)
            for name in targets:
                copied = instruction.opcode in ("mov", "cvta") and len(sources) == 1
                self._copied[name].add(next(iter(sources)) if copied else "")
            for source in sources:
                self._next[source] |= targets

    def reached(self, names: Iterable[str]) -> set[str]:
        """Return all registers that values of ``names`` may go to, themselves included."""
        seen = set(names)
        left = list(seen)
        while left:
            for name in self._next[left.pop()]:
                if name not in seen:
                    seen.add(name)
                    left.append(name)
        return seen

    def decides(self, load: Instruction, registers: Mapping[str, str]) -> bool:
        """Whether a loaded value takes part in a comparison."""
        return any(registers.get(name) == "pred" for name in self.reached(registers_written(load)))

    def reads_again(self, load: Instruction, others: Sequence[Instruction]) -> bool:
        """Whether a load has the address of another one of ``others``."""
        places = self._names(address_operand(load))
        return any(other is not load and places & self._names(address_operand(other)) for other in others)

    def prepares(self, load: Instruction, atomics: Sequence[Instruction], registers: Mapping[str, str]) -> bool:
        """Whether a plain load reads what an atomic operation then compares with: a stale value does no harm.

        That is how a compare-and-swap loop begins, and how ``if (v > *m) atomicMax(m, v)`` saves work.
        """
        places = self._names(address_operand(load))
        near = [
            atomic
            for atomic in atomics
            if _GUARDED & set(atomic.modifiers) and places & self._names(address_operand(atomic))
        ]
        if not near:
            return False
        reached = self.reached(registers_written(load))
        values = {name for atomic in near for name in registers_read(atomic)}
        return bool(reached & values) or any(registers.get(name) == "pred" for name in reached)

    def _names(self, address: Address | None) -> set[str]:
        """Return the ways to say an address: as written, and by where its base was loaded from."""
        if address is None:
            return set()
        if not isinstance(address.base, Register):
            return {_place(address)}
        name = self._original(address.base.name)
        names = {_place(Address(Register(name), address.offset))}
        return names | {f"*{place}+{address.offset}" for place in self._loaded.get(name, ())}

    def _original(self, name: str) -> str:
        """Follow copies back as far as there is only one way."""
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            sources = self._copied.get(name, set())
            source = next(iter(sources)) if len(sources) == 1 else ""
            if source:
                name = source
        return name


def _place(address: Address) -> str:
    return f"[{address.base}+{address.offset}]"
