"""Which registers are the same for all lanes, which rise by a constant step, and where lanes may have parted.

A sparse dataflow over registers, started from "unknown", alternates with an analysis of control: a branch whose
predicate differs between lanes makes registers varying that lanes on its different sides, or lanes leaving a loop in
different rounds, could see different values of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.graph import Graph
from gpuemu_lsp.engine.emulator.liveness import Liveness
from gpuemu_lsp.engine.emulator.matrix.permutation import PERMUTATIONS
from gpuemu_lsp.engine.emulator.opcodes import memory_space
from gpuemu_lsp.engine.emulator.operands import CARRY, flat, split, written
from gpuemu_lsp.engine.emulator.program import EXIT, Branch, Program, Switch
from gpuemu_lsp.engine.emulator.shapes import UNIFORM, VARYING, WARP, BlockShape, Fact, Shape, join
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Negated, Operand, Register, Symbol

_MAX_STEP = 1 << 24
"""Steps beyond this are not worth keeping, and could overflow when multiplied by a lane number."""

_ALWAYS_VARYING = frozenset({"shfl", "atom", "match", "elect", "call", "mma", "mbarrier"}) | PERMUTATIONS


@dataclass(frozen=True, slots=True)
class Uniformity:
    """The result.

    ``divergent`` are the blocks that may run while living lanes of the warp wait elsewhere; ``partial`` those that may
    run without all 32 lanes. ``constants`` are registers known to hold one integer. ``ordered`` False means that
    lanes cannot be made to meet by block order: only the general translation is right. ``forks`` are the blocks at
    whose end lanes may part over a loop: to run it or not, or to leave it in different rounds.
    """

    shapes: Mapping[str, Shape]
    divergent: frozenset[int]
    partial: frozenset[int]
    constants: Mapping[str, int]
    ordered: bool
    forks: frozenset[int] = frozenset()


def general(program: Program) -> Uniformity:
    """Return the analysis that assumes nothing: every register varies, lanes may have parted everywhere."""
    everywhere = frozenset(range(len(program.blocks)))
    shapes = dict.fromkeys(program.registers, VARYING)
    return Uniformity(shapes, everywhere, everywhere, _constants(program), ordered=True)


def analyse(
    program: Program,
    graph: Graph,
    live: Liveness,
    block: BlockShape,
    pinned: Set[str],
    frame_bytes: int,
    together: Set[int] = frozenset(),
) -> Uniformity:
    """Classify every register and block. ``pinned`` registers are varying whatever the code says.

    ``frame_bytes`` is the size of a thread's local memory: the step of a local variable's generic address. At the ends
    of the blocks ``together``, forks, lanes are taken to stay together, whatever they are told.
    """
    flow = _Dataflow(program, block, pinned, frame_bytes)
    divergent: set[int] = set()
    partial: set[int] = set() if block.full_warps else set(range(len(program.blocks)))
    ordered = graph.reducible
    seen: set[int] = set(together)
    forks: set[int] = set()
    while True:
        flow.solve()
        fresh = [b for b in range(len(program.blocks)) if b not in seen and flow.parts_lanes(program, b)]
        if not fresh:
            break
        seen.update(fresh)
        forced = 0
        for number in fresh:
            sides, meeting = _sides(program, graph, number)
            region = set().union(*sides)
            partial |= region
            if _forks(program, graph, number, region):
                forks.add(number)
            if meeting < len(program.blocks) and any(b >= meeting for b in region):
                ordered = False
            forced |= _parted(sides, meeting, live, divergent)
        flow.force(live.registers(forced))
    return Uniformity(
        flow.shapes(), frozenset(divergent), frozenset(partial), flow.constants, ordered, frozenset(forks)
    )


def _forks(program: Program, graph: Graph, number: int, region: Set[int]) -> bool:
    """Whether a branch that may part lanes decides about a loop, and all lanes go on behind it."""
    end = program.blocks[number].end
    if not isinstance(end, Branch) or EXIT in (end.taken, end.other):
        return False
    return any(latch in region and header in region for latch, header in graph.back_edges)


def _sides(program: Program, graph: Graph, number: int) -> tuple[list[set[int]], int]:
    """Return, per target of a branch, the blocks reached before lanes meet again; and where they meet."""
    meeting = graph.post_dominator[number]
    sides = []
    for target in dict.fromkeys(program.blocks[number].targets):
        seen: set[int] = set()
        work = [] if target in (EXIT, meeting) else [target]
        while work:
            block = work.pop()
            if block not in seen:
                seen.add(block)
                work.extend(t for t in graph.successors[block] if t != meeting)
        sides.append(seen)
    return sides, meeting


def _parted(sides: Sequence[set[int]], meeting: int, live: Liveness, divergent: set[int]) -> int:
    """Mark blocks that run while lanes of another side wait; return the registers that must differ between lanes.

    Lanes wait at block T while others run block D below it. If D writes a register that T's lanes still need, one
    scalar cannot hold both values.
    """
    forced = 0
    count = len(live.live_in)
    for i, mine in enumerate(sides):
        waiting: set[int] = set()
        for j, other in enumerate(sides):
            if j != i:
                waiting |= other
        if meeting < count:
            waiting.add(meeting)
        if not mine or not waiting:
            continue
        order = sorted(waiting)
        needed = 0
        for block in sorted(mine, reverse=True):
            while order and order[-1] > block:
                needed |= live.live_in[order.pop()]
            forced |= live.defined[block] & needed
        highest = max(waiting)
        divergent.update(b for b in mine if b < highest)
    return forced


def _constants(program: Program) -> dict[str, int]:
    """Return the registers that one ``mov`` sets to an integer, and nothing else writes."""
    values: dict[str, int | None] = {}
    for block in program.blocks:
        for instruction in block.code:
            for name in written(instruction):
                source = instruction.operands[1] if instruction.opcode == "mov" and name not in values else None
                literal = isinstance(source, Immediate) and source.kind == "int" and instruction.guard is None
                values[name] = source.bits if literal and isinstance(source, Immediate) else None
    return {name: value for name, value in values.items() if value is not None}


@dataclass(slots=True)
class _Definition:
    register: str
    instruction: Instruction
    affine: bool


class _Dataflow:
    """Facts about registers, raised until nothing changes."""

    def __init__(self, program: Program, block: BlockShape, pinned: Iterable[str], frame_bytes: int) -> None:
        self.constants = _constants(program)
        self.lanes = block.lanes
        self._frame = frame_bytes
        self._specials = block.specials()
        self._registers = program.registers
        self._facts: dict[str, Fact] = dict.fromkeys(pinned, Fact(VARYING))
        self._definitions: list[_Definition] = []
        self._users: dict[str, list[int]] = {}
        for one in program.blocks:
            for instruction in one.code:
                self._define(instruction)
        self._work = list(range(len(self._definitions)))[::-1]

    def _define(self, instruction: Instruction) -> None:
        sources = {name for name in map(_name, flat(split(instruction)[1])) if name}
        if instruction.guard is not None:
            sources.add(instruction.guard.register.name)
        for name in written(instruction):
            index = len(self._definitions)
            affine = self._registers.get(name, "")[-2:] in ("32", "64") and self._registers[name][0] != "f"
            self._definitions.append(_Definition(name, instruction, affine))
            for source in sources:
                self._users.setdefault(source, []).append(index)

    def force(self, registers: Iterable[str]) -> None:
        for name in registers:
            self._raise(name, Fact(VARYING))

    def parts_lanes(self, program: Program, number: int) -> bool:
        """Whether lanes may leave a block in different directions."""
        end = program.blocks[number].end
        if isinstance(end, Branch):
            return not self._fact(end.guard.register).shape.uniform
        if isinstance(end, Switch):
            return not self._fact(end.index).shape.uniform
        return False

    def shapes(self) -> dict[str, Shape]:
        return {name: (self._facts.get(name) or Fact(UNIFORM)).shape for name in self._registers}

    def solve(self) -> None:
        while self._work:
            definition = self._definitions[self._work.pop()]
            old = self._facts.get(definition.register)
            if old is not None and old.shape.varying:
                continue
            fact = self._evaluate(definition)
            if fact is not None:
                self._raise(definition.register, fact)

    def _raise(self, name: str, fact: Fact) -> None:
        old = self._facts.get(name)
        new = join(old, fact)
        if new != old:
            self._facts[name] = new
            self._work.extend(self._users.get(name, ()))

    def _fact(self, operand: Operand) -> Fact:
        return self._known(operand) or Fact(UNIFORM)

    def _known(self, operand: Operand) -> Fact | None:
        """Return the fact about an operand, None while it is not known."""
        if isinstance(operand, Address):
            return self._known(operand.base)
        if isinstance(operand, Negated):
            return self._known(operand.register)
        if isinstance(operand, Immediate):
            return Fact(UNIFORM, _trailing_zeros(operand.bits))
        if isinstance(operand, Register):
            if operand.name in self._registers:
                return self._facts.get(operand.name)
            return self._specials.get(operand.name, Fact(UNIFORM))
        return Fact(UNIFORM, 7 if isinstance(operand, Symbol) and operand.offset % 128 == 0 else 0)

    def _evaluate(self, definition: _Definition) -> Fact | None:
        instruction = definition.instruction
        if instruction.opcode in _ALWAYS_VARYING:
            return Fact(VARYING)
        guard = instruction.guard
        if guard is not None and not (self._known(guard.register) or Fact(UNIFORM)).shape.uniform:
            return Fact(VARYING)
        known = [self._known(source) for source in flat(split(instruction)[1])]
        if "cc" in instruction.modifiers or instruction.opcode in ("addc", "subc", "madc"):
            known.append(self._facts.get(CARRY, Fact(UNIFORM)))
        facts: list[Fact] = []
        for one in known:
            if one is None:
                return None
            facts.append(one)
        if instruction.opcode == "ld":
            return self._load(instruction, facts[0].shape)
        if any(fact.shape.varying for fact in facts):
            return Fact(VARYING)
        if instruction.opcode == "cvta" and "local" in instruction.modifiers:
            shape = facts[0].shape
            frame = -self._frame if "to" in instruction.modifiers else self._frame
            return Fact(Shape(shape.per_part, shape.step + frame)) if definition.affine else Fact(VARYING)
        per_part = any(fact.shape.per_part for fact in facts)
        rule = _RULES.get(instruction.opcode)
        result = rule(self, instruction, facts) if rule is not None else None
        if result is None:
            result = Fact(Shape(per_part)) if all(fact.shape.flat for fact in facts) else Fact(VARYING)
        step = result.shape.step
        if step and (not definition.affine or abs(step) > _MAX_STEP):
            return Fact(VARYING)
        return result

    def _load(self, instruction: Instruction, address: Shape) -> Fact:
        space = memory_space(instruction)
        if space == "local" or not address.flat:
            return Fact(VARYING)
        return Fact(Shape(address.per_part))

    # ---- rules for integers: they say what happens to step and zeros; None means "uniform in, uniform out" -----------

    def constant(self, operand: Operand) -> int | None:
        if isinstance(operand, Immediate) and operand.kind == "int":
            return operand.bits
        return self.constants.get(operand.name) if isinstance(operand, Register) else None

    def extent(self, shape: Shape) -> int:
        """Return how far the last lane lies above the base."""
        return shape.step * ((self.lanes if shape.per_part else WARP) - 1)


def _name(operand: Operand) -> str | None:
    match operand:
        case Register(name) | Address(Register(name), _) | Negated(Register(name)):
            return name
        case _:
            return None


def _trailing_zeros(value: int) -> int:
    return 63 if value == 0 else (value & -value).bit_length() - 1


def _both(facts: Sequence[Fact]) -> bool:
    return any(fact.shape.per_part for fact in facts)


def _copy(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    return facts[0] if len(facts) == 1 and len(written(instruction)) == 1 else None


def _add(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    if not _plain_integer(instruction):
        return None
    sign = -1 if instruction.opcode == "sub" else 1
    step = facts[0].shape.step + sign * facts[1].shape.step
    return Fact(Shape(_both(facts), step), min(facts[0].zeros, facts[1].zeros))


def _scaled(flow: _Dataflow, operands: Sequence[Operand], facts: Sequence[Fact]) -> Fact | None:
    """Return the fact about a product: a step survives only a constant factor."""
    a, b = facts[:2]
    zeros = min(a.zeros + b.zeros, 63)
    if a.shape.flat and b.shape.flat:
        return Fact(Shape(_both(facts[:2])), zeros)
    for this, other, operand in ((a, b, operands[1]), (b, a, operands[0])):
        factor = flow.constant(operand)
        if other.shape.flat and factor is not None:
            return Fact(Shape(_both(facts[:2]), this.shape.step * _signed(factor)), zeros)
    return Fact(VARYING)


def _signed(value: int) -> int:
    """Read a literal such as 0xfffffffc as the small negative number it stands for in 32 bits."""
    return value - (1 << 32) if (1 << 31) <= value < (1 << 32) else value


def _multiply(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    if not _plain_integer(instruction) or "hi" in instruction.modifiers:
        return None
    product = _scaled(flow, instruction.operands[1:3], facts)
    if "wide" in instruction.modifiers and product is not None:
        # The product of 32-bit bases is widened: its low bits are those of the factors as before.
        product = Fact(product.shape, min(product.zeros, 31))
    if instruction.opcode == "mul" or product is None or product.shape.varying:
        return product
    addend = facts[2]
    shape = Shape(product.shape.per_part or addend.shape.per_part, product.shape.step + addend.shape.step)
    return Fact(shape, min(product.zeros, addend.zeros))


def _shift_left(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    amount = flow.constant(instruction.operands[2])
    if amount is None or not 0 <= amount < 24:
        return None
    shape = facts[0].shape
    return Fact(Shape(shape.per_part, shape.step << amount), min(facts[0].zeros + amount, 63))


def _shift_right(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    amount = flow.constant(instruction.operands[2])
    if amount is None or facts[0].shape.flat:
        return None
    for fact in (facts[0], _parted_base(flow, facts[0])):
        bits = _spread(flow, fact)
        if bits is not None and amount >= bits:
            return Fact(Shape(fact.shape.per_part), max(fact.zeros - amount, 0))
    return None


def _parted_base(flow: _Dataflow, fact: Fact) -> Fact:
    """Return a stepping value as one with a base per part: fewer lanes share a base, and differ in fewer bits."""
    shape = fact.shape
    if shape.per_part:
        return fact
    apart = _trailing_zeros(shape.step * flow.lanes)
    return Fact(Shape(True, shape.step), min(fact.zeros, apart))


def _spread(flow: _Dataflow, fact: Fact) -> int | None:
    """Return the number of low bits in which lanes differ, if adding the lane's step never carries out of them."""
    if fact.shape.step < 0:
        return None
    bits = flow.extent(fact.shape).bit_length()
    return bits if fact.zeros >= bits else None


def _and(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    for this, other in ((0, 1), (1, 0)):
        mask = flow.constant(instruction.operands[1 + other])
        if facts[this].shape.flat or mask is None:
            continue
        for fact in (facts[this], _parted_base(flow, facts[this])):
            bits = _spread(flow, fact)
            low = (1 << bits) - 1 if bits is not None else 0
            if bits is not None and mask & low == low:
                return fact
            if bits is not None and mask & low == 0:
                return Fact(Shape(fact.shape.per_part), fact.zeros)
        return None
    return None


def _or(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    """Treat ``or`` as an addition where the bits cannot overlap, which is how NVRTC writes many sums."""
    for this, other in ((0, 1), (1, 0)):
        fact, value = facts[this], flow.constant(instruction.operands[1 + other])
        if fact.shape.flat or value is None or value < 0:
            continue
        room = min(fact.zeros, _trailing_zeros(fact.shape.step))
        if value < (1 << room):
            return Fact(fact.shape, _trailing_zeros(value))
    return None


def _convert(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    types = instruction.modifiers
    if len(types) != 2 or types[0][0] not in "sub" or types[1][0] not in "sub":
        return None
    to, source = int(types[0][1:]), int(types[1][1:])
    if to < 32 or source < 32:
        return None
    return facts[0]


def _select(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    if not facts[2].shape.uniform:
        return None
    return join(facts[0], facts[1])


_BELOW = {"lt": True, "lo": True, "ge": True, "hs": True, "le": False, "ls": False, "gt": False, "hi": False}
"""Comparisons that split the integers just below their second operand (True) or just above it."""
_TURNED = {"lt": "gt", "lo": "hi", "ge": "le", "hs": "ls", "le": "ge", "ls": "hs", "gt": "lt", "hi": "lo"}


def _compare(flow: _Dataflow, instruction: Instruction, facts: list[Fact]) -> Fact | None:
    """Find comparisons all lanes agree in: where values split, between two runs of lanes, no run is split.

    ``tid < 64`` holds for whole warps or not at all; the base says which.
    """
    if len(instruction.modifiers) != 2 or len(facts) != 2 or not _plain_integer(instruction):
        return None
    comparison = instruction.modifiers[0]
    for this, other, turned in ((0, 1, False), (1, 0, True)):
        way = _TURNED.get(comparison) if turned else comparison
        if way not in _BELOW or facts[this].shape.flat or not facts[other].shape.flat:
            continue
        bits = _spread(flow, facts[this])
        constant = flow.constant(instruction.operands[1 + other])
        border = facts[other].zeros if constant is None or _BELOW[way] else _trailing_zeros(constant + 1)
        known = constant is not None or _BELOW[way]
        if bits is not None and known and border >= bits:
            return Fact(Shape(_both(facts)))
    return None


def _plain_integer(instruction: Instruction) -> bool:
    kind = instruction.modifiers[-1]
    if kind[0] not in "sub" or kind[1:] not in ("32", "64"):
        return False
    return not {"sat", "cc"} & set(instruction.modifiers)


_Rule = Callable[[_Dataflow, Instruction, list[Fact]], "Fact | None"]

_RULES: dict[str, _Rule] = {
    "mov": _copy,
    "cvta": _copy,
    "add": _add,
    "sub": _add,
    "mul": _multiply,
    "mad": _multiply,
    "shl": _shift_left,
    "shr": _shift_right,
    "and": _and,
    "or": _or,
    "cvt": _convert,
    "selp": _select,
    "setp": _compare,
}
