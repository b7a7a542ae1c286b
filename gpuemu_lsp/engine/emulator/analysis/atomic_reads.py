"""Plain reads of locations that atomic operations update, by what becomes of the value.

A weak read and another thread's atomic operation race unless something orders them (PTX ISA section 8.7.1),
and the value that the read returns is undefined. Correct programs contain such reads all the same: a compare-and-swap
loop begins with one, as in the CUDA programming guide's ``atomicAdd`` for doubles. Where the value goes decides:

- only into a compare-and-swap of the same address, which compares it again: the read has no consequence. In Triton
  another thread may do so, to which a tensor's elements move by shuffles or through shared memory;
- only into branches next to an atomic operation on the same address (``if (v > *m) atomicMax(m, v)``), or into atomic
  operations on the same buffer (union-find, relaxation of distances by ``atomicMin``): right for values that change
  in one direction only, provided that the compiler repeats the read where the source does;
- elsewhere: a race with a wrong result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.analysis.dominators import dominates, dominators
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, roots
from gpuemu_lsp.engine.emulator.analysis.value_flow import DefinitionUses, Edge, ValueFlow
from gpuemu_lsp.engine.emulator.ir.accesses import MemoryAccess
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, elements, registers_written
from gpuemu_lsp.engine.emulator.ir.program import EXIT, Branch, Program
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Register

_RECHECKING = frozenset({"cas", "min", "max", "and", "or"})
"""Atomic operations that need no exact earlier read: they compare again, or executing them once more does no harm."""

_COMPUTED = frozenset(
    {"mov", "cvt", "add", "sub", "mul", "mad", "neg", "not", "and", "or", "xor", "shl", "shr", "min", "max"}
)
"""Operations whose result depends on their operands only."""


class PlainRead(Enum):
    """Consequence of a plain read that may race with an atomic operation on the same location."""

    COMPARED_AGAIN = auto()
    PRE_CHECK = auto()


@dataclass(frozen=True, slots=True)
class _Uses:
    """What a loaded value reaches.

    ``expected``: the expected values of compare-and-swap operations, by site. ``stored``: anything that another thread,
    or the host, can see. ``addresses``: addresses of other accesses. ``operands``: other operands of atomic operations.
    ``branches``: terminators. ``guarded``: atomic operations whose guard it decides. ``shuffled`` and ``in_shared``: it
    reaches other threads, by shuffles or through shared memory, as where Triton changes the layout of a tensor.
    """

    expected: frozenset[int]
    operands: frozenset[int]
    addresses: frozenset[int]
    branches: frozenset[int]
    guarded: frozenset[int]
    stored: bool
    shuffled: bool
    in_shared: bool

    @property
    def reaches_memory(self) -> bool:
        """Whether the value reaches more than branches."""
        return bool(self.expected or self.operands or self.addresses or self.stored)


def plain_reads(program: Program, accesses: Sequence[MemoryAccess]) -> Mapping[int, PlainRead]:
    """Return, by site, the plain reads of atomically updated locations whose races do not make a result wrong."""
    atomics = [one for one in accesses if one.instruction.opcode in ("atom", "red")]
    # After an add or an exchange no value of the location is settled: what a plain read of it decides may be wrong.
    atomics = [one for one in atomics if _RECHECKING & set(one.instruction.modifiers)]
    reads = [one for one in accesses if one.instruction.opcode == "ld" and "volatile" not in one.instruction.modifiers]
    # Registers of a recursive function are saved and restored: a value's uses are not those of its register.
    if not atomics or not reads or program.recursive:
        return {}
    flow = ValueFlow([instruction for block in program.blocks for instruction in block.code])
    known = origins(program)
    # Buffers that are also changed in other ways do not keep a direction.
    changed = {
        root
        for one in accesses
        if one.is_write and one.site not in {atomic.site for atomic in atomics}
        for root in roots(one.address, known)
    }
    named = [(one, flow.names(one.address), roots(one.address, known)) for one in atomics]
    values = _ReadValues(program, flow)
    found = {}
    for read in reads:
        names, buffers = flow.names(read.address), roots(read.address, known)
        same = [atomic for atomic, other, _ in named if names & other]
        # Other elements of the same buffer, as pointers into it lead from one to the next.
        near = [atomic for atomic, _, other in named if buffers & other - {UNKNOWN}] if UNKNOWN not in buffers else []
        if not same and not near:
            continue
        # Unrolled and rotated loops compute the address of the read and that of the operation in different registers.
        steady = near if not buffers & changed else same
        kind = _kind(values, read, same, near, steady)
        if kind is not None:
            found[read.site] = kind
    return found


class EqualWrites:
    """Plain reads that only decide if writes are needed, by which all threads write one value.

    ``if (level[v] == -1) level[v] = depth;`` in a breadth-first search: a thread that reads too early writes once more
    what is there already. ``depth`` must be computed from constants and arguments, nothing else is written to the
    buffer, and a write follows the read: a thread that polls a flag of another one needs more than a plain read.

    Each fact of the program is computed once: a launch may have races at hundreds of reads.
    """

    def __init__(self, program: Program, accesses: Sequence[MemoryAccess]) -> None:
        self._program = program
        self._reads = {one.site: one for one in accesses if one.instruction.opcode == "ld" and not one.is_write}
        self._writes = [one for one in accesses if one.is_write]

    @cached_property
    def _origins(self) -> Mapping[str, frozenset[str]]:
        return origins(self._program)

    @cached_property
    def _values(self) -> _ReadValues:
        code = [instruction for block in self._program.blocks for instruction in block.code]
        return _ReadValues(self._program, ValueFlow(code))

    @cached_property
    def _dominators(self) -> Sequence[int]:
        return dominators([[to for to in block.targets if to != EXIT] for block in self._program.blocks])

    def are_guarded_by(self, read_site: int) -> bool:
        """Whether the read at a site is one of them."""
        read = self._reads.get(read_site)
        if read is None or self._program.recursive:
            return False
        buffers = roots(read.address, self._origins)
        writes = [one for one in self._writes if (buffers | {UNKNOWN}) & roots(one.address, self._origins)]
        if UNKNOWN in buffers or any(one.instruction.opcode != "st" for one in writes):
            return False
        # Dominance distinguishes the search from a poll: the write that a poll waits for is on a path of its own.
        if not any(dominates(self._dominators, read.block, one.block) and read.site < one.site for one in writes):
            return False
        # Values of several stores must agree as well: the detector does not report equal writes, but different ones.
        written = {
            self._values.argument(operand) for one in writes for operand in elements(one.instruction.operands[1])
        }
        return len(written) == 1 and None not in written and not self._values.uses(read).reaches_memory


def _kind(
    values: _ReadValues,
    read: MemoryAccess,
    same: Sequence[MemoryAccess],
    near: Sequence[MemoryAccess],
    steady: Sequence[MemoryAccess],
) -> PlainRead | None:
    """Return the consequence of a read.

    ``same``: atomic operations on its address. ``near``: those on its buffer. ``steady``: of these the ones of which it
    may be a pre-check; all if nothing else changes the buffer, as compilers give equal addresses different registers.
    """
    uses = values.uses(read)
    if uses.stored:
        return None
    at_same, at_near = ({one.site for one in group} for group in (same, near))
    reached = uses.expected | uses.operands
    # In another thread, the address is computed in another way: the buffer is what can be compared.
    if uses.shuffled or uses.in_shared:
        at_same |= at_near
    if uses.expected & at_same and reached <= at_same and not uses.addresses:
        return PlainRead.COMPARED_AGAIN
    if uses.in_shared:
        return None
    # A value that becomes an address decides which location is changed; what is compared there is another one.
    if reached:
        # From element to element of the same buffer, up to an operation that compares: union-find, shortest paths.
        return PlainRead.PRE_CHECK if reached <= at_near | at_same else None
    # A read that follows the operations, or decides something else, is a use of the value.
    decides = any(values.decides(uses, read, atomic) for atomic in (*same, *steady))
    return PlainRead.PRE_CHECK if decides and not uses.addresses else None


class _ReadValues:
    """Follows loaded values through the program.

    A value ends where a compare-and-swap that expected it has succeeded: what is used from there on is what the atomic
    operation has read. Compilers use the expected value after the loop, which is the same.
    """

    def __init__(self, program: Program, flow: ValueFlow) -> None:
        self._program, self._definitions, self._flow = program, DefinitionUses(program), flow
        self._written: dict[str, list[Instruction]] = {}
        for one in self._definitions.instructions.values():
            for name in registers_written(one):
                self._written.setdefault(name, []).append(one)
        self._slots: dict[str, list[int]] = {}
        self._shared_loads = [
            site
            for site, one in self._definitions.instructions.items()
            if one.opcode in ("ld", "ldmatrix") and memory_space(one) == "shared"
        ]
        for site, one in self._definitions.instructions.items():
            if one.opcode == "ld" and "local" in one.modifiers:
                for name in flow.names(address_operand(one)):
                    self._slots.setdefault(name, []).append(site)

    def decides(self, uses: _Uses, read: MemoryAccess, atomic: MemoryAccess) -> bool:
        """Whether a read value decides if an atomic operation is executed before the location is read again."""
        # Short branches are converted to guards.
        if atomic.site in uses.guarded:
            return True
        for site in uses.branches:
            targets = self._program.blocks[self._definitions.block_of(site)].targets
            reaching = [atomic.block in self._reachable(target, read.block) for target in targets if target != EXIT]
            # In a loop both ways lead to the operation, but one of them past the next read.
            if any(reaching) and not (all(reaching) and len(reaching) == len(targets)):
                return True
        return False

    def _reachable(self, start: int, without: int) -> set[int]:
        # Where the location is read again, that read decides. A block that begins there is reached, not passed.
        def following(number: int) -> Iterable[int]:
            return (to for to in self._program.blocks[number].targets if to != EXIT) if number != without else ()

        return reachable([start], following)

    def argument(self, operand: Operand) -> str | None:
        """Return a name for an operand that is computed from constants and arguments: it has one value in the grid."""
        return self._argument(operand, frozenset())

    def _argument(self, operand: Operand, within: frozenset[str]) -> str | None:
        if not isinstance(operand, Register):
            return str(operand) if isinstance(operand, Immediate) else None
        found = self._written.get(operand.name, [])
        if len(found) != 1 or operand.name in within:
            return None
        one = found[0]
        # Parameters are the same for all threads of a launch; other memory may change while it executes.
        if one.opcode == "ld":
            return str(one.operands[1]) if memory_space(one) == "param" else None
        if one.opcode not in _COMPUTED or one.guard is not None:
            return None
        parts = [self._argument(part, within | {operand.name}) for part in one.operands[1:]]
        if any(part is None for part in parts):
            return None
        # Copies are the value itself: compilers make some for equal stores.
        return parts[0] if one.opcode in ("mov", "cvt") else f"{one.name}({', '.join(map(str, parts))})"

    def uses(self, read: MemoryAccess) -> _Uses:
        """Return what the value of a read reaches before a compare-and-swap has confirmed it."""
        # Which comparisons confirm the value is known only once it is known which operations expect it.
        unconfirmed = self._reached(read, frozenset(), frozenset())
        if not unconfirmed.expected:
            return unconfirmed
        return self._reached(read, *self._confirmations(unconfirmed.expected))

    def _reached(self, read: MemoryAccess, confirming: frozenset[int], closed: frozenset[Edge]) -> _Uses:
        expected, operands, addresses = set[int](), set[int](), set[int]()
        branches, guarded = set[int](), set[int]()
        stored = shuffled = in_shared = False

        def following(place: tuple[int, str]) -> Iterator[tuple[int, str]]:
            nonlocal stored, shuffled, in_shared
            site, name = place
            for use in self._definitions.uses(site, name, closed):
                one = self._definitions.instructions.get(use)
                if one is None:
                    branches.add(use)
                    continue
                # Whether the operation found what it expected is a result of the operation, not of the plain read.
                if use in confirming:
                    continue
                targets: list[tuple[int, str]] = []
                # What an atomic returns is its own read: the plainly read value ends there.
                if one.opcode in ("atom", "red"):
                    self._atomic(one, use, name, expected, operands, addresses)
                    if one.guard is not None and one.guard.register.name == name:
                        guarded.add(use)
                # Unoptimised code keeps what has its address taken on the stack.
                elif one.opcode == "st" and "local" in one.modifiers and not _is_address(one, name):
                    slots = {s for slot in self._flow.names(address_operand(one)) for s in self._slots.get(slot, ())}
                    targets = [(s, to) for s in slots for to in registers_written(self._definitions.instructions[s])]
                elif one.opcode in ("st", "stmatrix") and memory_space(one) == "shared" and not _is_address(one, name):
                    # Which load reads it is not known: any may.
                    in_shared = True
                    loads = self._shared_loads
                    targets = [(s, to) for s in loads for to in registers_written(self._definitions.instructions[s])]
                elif one.opcode in ("st", "sust", "call", "cp", "wmma", "stmatrix", "mbarrier", "%push", "%copy"):
                    # As a guard the value decides a store, which is what the branches say, too.
                    stored = stored or one.guard is None or one.guard.register.name != name or one.opcode == "call"
                else:
                    if _is_address(one, name):
                        addresses.add(use)
                    shuffled = shuffled or one.opcode == "shfl"
                    targets = [(use, to) for to in registers_written(one)]
                yield from targets

        reachable(((read.site, name) for name in registers_written(read.instruction)), following)
        return _Uses(
            frozenset(expected),
            frozenset(operands),
            frozenset(addresses),
            frozenset(branches),
            frozenset(guarded),
            stored,
            shuffled,
            in_shared,
        )

    def _confirmations(self, sites: Iterable[int]) -> tuple[frozenset[int], frozenset[Edge]]:
        """Return the sites of comparisons that show if a compare-and-swap found what it expected.

        And the edges taken if it did.
        """
        comparisons, edges = set[int](), set[Edge]()
        for site in sites:
            self._confirm(site, comparisons, edges)
        return frozenset(comparisons), frozenset(edges)

    def _confirm(self, site: int, comparisons: set[int], edges: set[Edge]) -> None:
        """Add the comparisons of a compare-and-swap's old value with the expected one, and the edges of success."""
        swap = self._definitions.instructions[site]
        predicates: list[tuple[int, str, bool]] = []

        def copies(place: tuple[int, str]) -> Iterator[tuple[int, str]]:
            for use in self._definitions.uses(*place):
                one = self._definitions.instructions.get(use)
                if one is None or one.guard is not None:
                    continue
                if self._compares(one, swap):
                    comparisons.add(use)
                    predicates.extend((use, to, one.modifiers[0] == "eq") for to in registers_written(one))
                elif one.opcode == "mov":
                    yield from ((use, to) for to in registers_written(one))

        def negations(place: tuple[int, str, bool]) -> Iterator[tuple[int, str, bool]]:
            at, name, holds = place
            for use in self._definitions.uses(at, name):
                one = self._definitions.instructions.get(use)
                if one is None:
                    edges.update(self._edge(self._definitions.block_of(use), name, holds))
                elif one.opcode == "not" and one.guard is None:
                    yield from ((use, to, not holds) for to in registers_written(one))

        reachable(((site, name) for name in registers_written(swap)), copies)
        # Predicates, with whether they are true on success.
        reachable(predicates, negations)

    def _compares(self, one: Instruction, swap: Instruction) -> bool:
        """Whether an instruction compares, as loops do, a value with what a compare-and-swap expected."""
        # Any other comparison of the old value (is the slot free?) does not confirm what was read before.
        if one.opcode != "setp" or one.modifiers[0] not in ("eq", "ne", "neu") or len(one.operands) != 3:
            return False
        return any(self._flow.same_value(operand, swap.operands[2]) for operand in one.operands[1:])

    def _edge(self, number: int, name: str, holds: bool) -> set[Edge]:
        end = self._program.blocks[number].terminator
        # A switch or a barrier with a predicate is not what a loop ends with.
        if not isinstance(end, Branch) or end.guard.register.name != name:
            return set()
        return {(number, end.taken if holds != end.guard.negated else end.not_taken)}

    def _atomic(
        self, one: Instruction, site: int, name: str, expected: set[int], operands: set[int], addresses: set[int]
    ) -> None:
        # ``red`` has no destination in front of its address.
        values = one.operands[2 if one.opcode == "atom" else 1 :]
        if _is_address(one, name):
            addresses.add(site)
        for index, operand in enumerate(values):
            if operand == Register(name):
                (expected if "cas" in one.modifiers and index == 0 else operands).add(site)


def _is_address(instruction: Instruction, name: str) -> bool:
    address = address_operand(instruction)
    return address is not None and address.base == Register(name)
