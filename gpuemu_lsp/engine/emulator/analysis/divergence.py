"""Which registers are the same for all lanes, which rise by a constant step, and where lanes may have parted.

A sparse dataflow over registers, started from "unknown", alternates with an analysis of control: a branch whose
predicate differs between lanes makes registers varying that lanes on its different sides, or lanes leaving a loop in
different rounds, could see different values of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.affine_rules import RULES, Context, trailing_zeros
from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness
from gpuemu_lsp.engine.emulator.ir.lattice import UNIFORM, VARYING, LatticeValue, ThreadBlockShape, VectorShape, join
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import CARRY, flattened, registers_written, split_operands
from gpuemu_lsp.engine.emulator.ir.program import EXIT, Branch, Program, Switch
from gpuemu_lsp.engine.emulator.matrix.permutation import PERMUTATIONS
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Negated, Operand, Register, Symbol

_MAX_STEP = 1 << 24
"""Steps beyond this are not worth keeping, and could overflow when multiplied by a lane number."""

_ALWAYS_VARYING = frozenset({"shfl", "atom", "match", "elect", "call", "mma", "mbarrier"}) | PERMUTATIONS


@dataclass(frozen=True, slots=True)
class DivergenceInfo:
    """The result.

    ``divergent`` are the blocks that may run while living lanes of the warp wait elsewhere; ``partial`` those that may
    run without all 32 lanes. ``constants`` are registers known to hold one integer. ``ordered`` False means that
    lanes cannot be made to meet by block order: only the general translation is right. ``forks`` are the blocks at
    whose end lanes may part over a loop: to run it or not, or to leave it in different rounds.
    """

    shapes: Mapping[str, VectorShape]
    divergent: frozenset[int]
    partial: frozenset[int]
    constants: Mapping[str, int]
    reconverges: bool
    divergent_loop_branches: frozenset[int] = frozenset()


def all_divergent(program: Program) -> DivergenceInfo:
    """Return the analysis that assumes nothing: every register varies, lanes may have parted everywhere."""
    everywhere = frozenset(range(len(program.blocks)))
    shapes = dict.fromkeys(program.registers, VARYING)
    return DivergenceInfo(shapes, everywhere, everywhere, _constants(program), reconverges=True)


def analyse_divergence(
    program: Program,
    graph: ControlFlowGraph,
    live: Liveness,
    block: ThreadBlockShape,
    pinned: Set[str],
    frame_bytes: int,
    together: Set[int] = frozenset(),
) -> DivergenceInfo:
    """Classify every register and block. ``pinned`` registers are varying whatever the code says.

    ``frame_bytes`` is the size of a thread's local memory: the step of a local variable's generic address. At the ends
    of the blocks ``together``, forks, lanes are taken to stay together, whatever they are told.
    """
    flow = _Dataflow(program, block, pinned, frame_bytes)
    flow.begin_with(live.registers(live.live_in[0]))
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
    return DivergenceInfo(
        flow.shapes(), frozenset(divergent), frozenset(partial), flow.constants, ordered, frozenset(forks)
    )


def _forks(program: Program, graph: ControlFlowGraph, number: int, region: Set[int]) -> bool:
    """Whether a branch that may part lanes decides about a loop, and all lanes go on behind it."""
    end = program.blocks[number].terminator
    if not isinstance(end, Branch) or EXIT in (end.taken, end.not_taken):
        return False
    return any(latch in region and header in region for latch, header in graph.back_edges)


def _sides(program: Program, graph: ControlFlowGraph, number: int) -> tuple[list[set[int]], int]:
    """Return, per target of a branch, the blocks reached before lanes meet again; and where they meet."""
    meeting = graph.reconvergence_point[number]
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
            for name in registers_written(instruction):
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

    def __init__(self, program: Program, block: ThreadBlockShape, pinned: Iterable[str], frame_bytes: int) -> None:
        self.constants = _constants(program)
        self._context = Context(self.constants, block.lanes)
        self._frame = frame_bytes
        self._specials = block.specials()
        self._registers = program.registers
        self._facts: dict[str, LatticeValue] = dict.fromkeys(pinned, LatticeValue(VARYING))
        self._definitions: list[_Definition] = []
        self._users: dict[str, list[int]] = {}
        for one in program.blocks:
            for instruction in one.code:
                self._define(instruction)
        self._work = list(range(len(self._definitions)))[::-1]

    def _define(self, instruction: Instruction) -> None:
        sources = {name for name in map(_name, flattened(split_operands(instruction)[1])) if name}
        if instruction.guard is not None:
            sources.add(instruction.guard.register.name)
        for name in registers_written(instruction):
            index = len(self._definitions)
            affine = self._registers.get(name, "")[-2:] in ("32", "64") and self._registers[name][0] != "f"
            self._definitions.append(_Definition(name, instruction, affine))
            for source in sources:
                self._users.setdefault(source, []).append(index)

    def begin_with(self, registers: Iterable[str]) -> None:
        """Let registers hold something before anything is written to them: the same for all lanes."""
        for name in registers:
            self._raise(name, LatticeValue(UNIFORM))

    def force(self, registers: Iterable[str]) -> None:
        for name in registers:
            self._raise(name, LatticeValue(VARYING))

    def parts_lanes(self, program: Program, number: int) -> bool:
        """Whether lanes may leave a block in different directions."""
        end = program.blocks[number].terminator
        if isinstance(end, Branch):
            return not self._fact(end.guard.register).shape.uniform
        if isinstance(end, Switch):
            return not self._fact(end.index).shape.uniform
        return False

    def shapes(self) -> dict[str, VectorShape]:
        return {name: (self._facts.get(name) or LatticeValue(UNIFORM)).shape for name in self._registers}

    def solve(self) -> None:
        while self._work:
            definition = self._definitions[self._work.pop()]
            old = self._facts.get(definition.register)
            if old is not None and old.shape.varying:
                continue
            fact = self._evaluate(definition)
            if fact is not None:
                self._raise(definition.register, fact)

    def _raise(self, name: str, fact: LatticeValue) -> None:
        old = self._facts.get(name)
        new = join(old, fact)
        if new != old:
            self._facts[name] = new
            self._work.extend(self._users.get(name, ()))

    def _fact(self, operand: Operand) -> LatticeValue:
        return self._known(operand) or LatticeValue(UNIFORM)

    def _known(self, operand: Operand) -> LatticeValue | None:
        """Return the fact about an operand, None while it is not known."""
        if isinstance(operand, Address):
            return self._known(operand.base)
        if isinstance(operand, Negated):
            return self._known(operand.register)
        if isinstance(operand, Immediate):
            return LatticeValue(UNIFORM, trailing_zeros(operand.bits))
        if isinstance(operand, Register):
            if operand.name in self._registers:
                return self._facts.get(operand.name)
            return self._specials.get(operand.name, LatticeValue(UNIFORM))
        return LatticeValue(UNIFORM, 7 if isinstance(operand, Symbol) and operand.offset % 128 == 0 else 0)

    def _evaluate(self, definition: _Definition) -> LatticeValue | None:
        instruction = definition.instruction
        if instruction.opcode in _ALWAYS_VARYING:
            return LatticeValue(VARYING)
        guard = instruction.guard
        if guard is not None and not (self._known(guard.register) or LatticeValue(UNIFORM)).shape.uniform:
            return LatticeValue(VARYING)
        known = [self._known(source) for source in flattened(split_operands(instruction)[1])]
        if "cc" in instruction.modifiers or instruction.opcode in ("addc", "subc", "madc"):
            known.append(self._facts.get(CARRY, LatticeValue(UNIFORM)))
        facts: list[LatticeValue] = []
        for one in known:
            if one is None:
                return None
            facts.append(one)
        if instruction.opcode == "ld":
            return self._load(instruction, facts[0].shape)
        if any(fact.shape.varying for fact in facts):
            return LatticeValue(VARYING)
        if instruction.opcode == "cvta" and "local" in instruction.modifiers:
            shape = facts[0].shape
            frame = -self._frame if "to" in instruction.modifiers else self._frame
            return (
                LatticeValue(VectorShape(shape.per_part, shape.step + frame))
                if definition.affine
                else LatticeValue(VARYING)
            )
        per_part = any(fact.shape.per_part for fact in facts)
        rule = RULES.get(instruction.opcode)
        result = rule(self._context, instruction, facts) if rule is not None else None
        if result is None:
            result = (
                LatticeValue(VectorShape(per_part))
                if all(fact.shape.part_uniform for fact in facts)
                else LatticeValue(VARYING)
            )
        step = result.shape.step
        if step and (not definition.affine or abs(step) > _MAX_STEP):
            return LatticeValue(VARYING)
        return result

    def _load(self, instruction: Instruction, address: VectorShape) -> LatticeValue:
        space = memory_space(instruction)
        if space == "local" or not address.part_uniform:
            return LatticeValue(VARYING)
        return LatticeValue(VectorShape(address.per_part))


def _name(operand: Operand) -> str | None:
    match operand:
        case Register(name) | Address(Register(name), _) | Negated(Register(name)):
            return name
        case _:
            return None
