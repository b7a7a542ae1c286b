"""Value flow: where a loaded value goes, and which addresses are the same.

The race detector's questions about a load depend on it: is it a flag that a thread polls, is it the plain read with
which a compare-and-swap loop begins? :class:`ValueFlow` is flow-insensitive and cheap, :class:`DefinitionUses` follows
control flow: the variable that a compare-and-swap loop first loads holds the operation's result when the loop is left.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.ir.operands import (
    address_operand,
    registers_read,
    registers_written,
    terminator_reads,
)
from gpuemu_lsp.engine.emulator.ir.program import EXIT, BasicBlock, Program
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Operand, Register

_COPIES = frozenset({"mov", "cvta"})
_PURE = frozenset({*_COPIES, "cvt", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "not", "neg", "ld"})
"""Opcodes of address arithmetic, of which equal operands give equal results: of loads as long as nothing is stored."""
_DEPTH = 40
"""Definitions followed to compare two addresses, far more than an index expression has."""


Edge: TypeAlias = tuple[int, int]
"""An edge of the control-flow graph: numbers of two basic blocks."""


class ValueFlow:
    """Def-use chains over registers and stack slots, whatever path control takes.

    Unoptimised PTX keeps every variable on the stack. An address as written (base register and offset) therefore counts
    as a register: a store to it defines it, and a load uses it.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._next: dict[str, set[str]] = defaultdict(set)
        self._loaded: dict[str, list[str]] = defaultdict(list)
        self._copied: dict[str, set[str]] = defaultdict(set)
        # The only definition of a register, if its result follows from its operands; else None.
        self._pure: dict[str, Instruction | None] = {}
        self._numbers: dict[str, int] = {}
        self._interned: dict[tuple[str | int, ...], int] = {}
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
            pure = len(targets) == 1 and instruction.guard is None and _is_pure(instruction)
            for name in targets:
                self._pure[name] = instruction if pure and name not in self._pure else None
                # "" stands for a definition that is not a copy.
                copied = instruction.opcode in _COPIES and len(sources) == 1
                self._copied[name].add(next(iter(sources)) if copied else "")
            # Every source flows into every target, guards and base addresses included: more flow is conservative.
            for source in sources:
                self._next[source] |= targets

    def reached(self, names: Iterable[str]) -> set[str]:
        """Return all registers and stack slots that values of ``names`` may reach, ``names`` included."""
        return reachable(names, self._next.__getitem__)

    def feeds_comparison(self, load: Instruction, registers: Mapping[str, str]) -> bool:
        """Whether a loaded value reaches a predicate."""
        return any(registers.get(name) == "pred" for name in self.reached(registers_written(load)))

    def same_address_as_any(self, load: Instruction, others: Sequence[Instruction]) -> bool:
        """Whether a load has the same address as one of ``others``, itself not counted."""
        names = self.names(address_operand(load))
        return any(other is not load and names & self.names(address_operand(other)) for other in others)

    def names(self, address: Address | None) -> set[str]:
        """Return names of an address: as written, by the stack slots its base was loaded from, and as an expression.

        Two addresses with a common name are equal if no register or memory in it has changed in between. In unoptimised
        PTX each use of a pointer variable loads it into a new register, and each ``p[i]`` is computed again.
        """
        if address is None:
            return set()
        if not isinstance(address.base, Register):
            return {_slot(address), f"#{self._interned_number((str(address.base),))}+{address.offset}"}
        # Two names are enough to recognise an address: optimised code keeps it in a register, unoptimised code on the
        # stack.
        name = self._original(address.base.name)
        names = {_slot(Address(Register(name), address.offset))}
        names.add(f"#{self._expression(name)}+{address.offset}")
        return names | {f"*{slot}+{address.offset}" for slot in self._loaded.get(name, ())}

    def same_value(self, one: Operand, other: Operand) -> bool:
        """Whether two operands are equal if no register or memory has changed in between."""
        return self._operand(one, 0) == self._operand(other, 0)

    def _expression(self, name: str, depth: int = 0) -> int:
        """Return a number for the expression that a register holds: equal for equal expressions (value numbering)."""
        definition = self._pure.get(name)
        # Defined several times: a value of its own. So is the end of a chain that is too long to follow.
        if definition is None or depth == _DEPTH:
            return self._interned_number((name,))
        if name not in self._numbers:
            parts = tuple(self._operand(operand, depth + 1) for operand in definition.operands[1:])
            if definition.opcode not in _COPIES or len(parts) != 1:
                self._numbers[name] = self._interned_number((definition.name, *parts))
            else:
                self._numbers[name] = parts[0] if isinstance(parts[0], int) else self._interned_number((parts[0],))
        return self._numbers[name]

    def _operand(self, operand: Operand, depth: int) -> int | str:
        if isinstance(operand, Address) and isinstance(operand.base, Register):
            return f"{self._expression(operand.base.name, depth)}+{operand.offset}"
        return self._expression(operand.name, depth) if isinstance(operand, Register) else str(operand)

    def _interned_number(self, expression: tuple[str | int, ...]) -> int:
        return self._interned.setdefault(expression, len(self._interned))

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


def _is_pure(instruction: Instruction) -> bool:
    return instruction.opcode in _PURE and not {"volatile", "relaxed", "acquire"} & set(instruction.modifiers)


def _slot(address: Address) -> str:
    return f"[{address.base}+{address.offset}]"


class DefinitionUses:
    """Uses that a definition of a register reaches before the register is defined again, by site.

    ``instructions`` are the program's by site, ``first_sites`` the site of each block's first instruction.
    """

    def __init__(self, program: Program) -> None:
        self._blocks = program.blocks
        self.first_sites: list[int] = []
        self.instructions: dict[int, Instruction] = {}
        self._place: dict[int, tuple[int, int]] = {}
        site = 0
        for number, block in enumerate(program.blocks):
            self.first_sites.append(site)
            for index, instruction in enumerate(block.code):
                self.instructions[site], self._place[site] = instruction, (number, index)
                site += 1
            self._place[site] = number, len(block.code)
            site += 1
        # By block and register, in order: instructions that read it or give it a new value. A block has few of them,
        # and a program of thousands of blocks is searched from thousands of definitions.
        self._accesses = [_accesses(block) for block in program.blocks]
        # By register: blocks that read it. Most registers are read near their definition, and the search ends there.
        self._readers: dict[str, set[int]] = {}
        for number, accesses in enumerate(self._accesses):
            for name, found in accesses.items():
                if any(reads for _, reads, _ in found):
                    self._readers.setdefault(name, set()).add(number)

    def block_of(self, site: int) -> int:
        """Return the number of the block of an instruction or a terminator."""
        return self._place[site][0]

    def place_of(self, site: int) -> tuple[int, int]:
        """Return the block of an instruction or a terminator, and its place in the block."""
        return self._place[site]

    def uses(self, site: int, name: str, closed: Set[Edge] = frozenset()) -> Iterator[int]:
        """Yield the sites of instructions and terminators that may read the value that ``site`` gives a register.

        Edges of the control-flow graph in ``closed`` are not followed.
        """
        number, index = self._place[site]
        left, seen = deque([(number, index + 1)]), set[int]()
        unread = set(self._readers.get(name, ()))
        while left:
            number, index = left.popleft()
            block = self._blocks[number]
            accesses = self._accesses[number].get(name, ())
            for offset, reads, redefines in accesses:
                if offset < index:
                    continue
                if reads:
                    yield self.first_sites[number] + offset
                if redefines:
                    break
            else:
                # Only a block that is left without a new definition passes the value on.
                fresh = {to for to in block.targets if to != EXIT and (number, to) not in closed} - seen
                seen |= fresh
                left.extend((target, 0) for target in fresh)
            # A block in which the search began is read from its start if a loop leads there.
            if index == 0 or not any(reads for offset, reads, _ in accesses if offset < index):
                unread.discard(number)
            if not unread:
                return


def _accesses(block: BasicBlock) -> dict[str, list[tuple[int, bool, bool]]]:
    """Return (index, whether it reads, whether it redefines) of each instruction that accesses a register.

    The terminator's index is that after the last instruction.
    """
    found: dict[str, list[tuple[int, bool, bool]]] = {}
    for index, instruction in enumerate(block.code):
        read, written = set(registers_read(instruction)), set(registers_written(instruction))
        for name in read | written:
            # A guarded definition leaves the value in the lanes whose guard is false.
            redefines = name in written and instruction.guard is None
            found.setdefault(name, []).append((index, name in read, redefines))
    for name in set(terminator_reads(block)):
        found.setdefault(name, []).append((len(block.code), True, False))
    return found
