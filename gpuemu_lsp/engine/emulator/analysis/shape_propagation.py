"""Sparse propagation of lattice values through the instructions of a program, regardless of control flow.

The data-divergence half of divergence analysis: a worklist over definitions, as in sparse conditional constant
propagation (Wegman and Zadeck, 1991), but with one value per register instead of one per SSA name. The values of all
definitions of a register are joined; :mod:`.webs` has split registers beforehand, so that unrelated definitions do not
join in one register.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.affine_rules import (
    AFFINE_RULES,
    WINDOW_ZEROS,
    AffineContext,
    trailing_zeros,
)
from gpuemu_lsp.engine.emulator.ir.lattice import UNIFORM, VARYING, LatticeValue, ThreadBlockShape, VectorShape, join
from gpuemu_lsp.engine.emulator.ir.opcodes import CLUSTER_ADDRESS, GROUP_PRODUCT, TENSOR_MEMORY, memory_space
from gpuemu_lsp.engine.emulator.ir.operands import CARRY, flattened, registers_written, split_operands
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.emulator.matrix.permutation import PERMUTATIONS
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Negated, Operand, Register, Symbol

_MAX_STEP = 1 << 24
"""Largest stride of an affine value: stride times lane number must stay well inside 32 bits."""

_ALWAYS_VARYING = (
    frozenset(
        {
            "shfl",
            "atom",
            "match",
            "elect",
            "call",
            "mma",
            "mbarrier",
            "mapa",
            "getctarank",
            "tex",
            "tld4",
            "suld",
            "txq",
            "suq",
            CLUSTER_ADDRESS,
            GROUP_PRODUCT,
            TENSOR_MEMORY,
        }
    )
    | PERMUTATIONS
)
"""Opcodes whose results differ between lanes even if all their sources are uniform, or that one call computes."""

_OVER_MEMBERS = frozenset({"vote", "redux"})


def integer_constants(program: Program) -> dict[str, int]:
    """Return the registers whose only definition is an unguarded ``mov`` of an integer literal, with that integer."""
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
    """One register written by one instruction; ``affine`` if the register is an integer of 32 or 64 bits."""

    register: str
    instruction: Instruction
    affine: bool


class ShapePropagation:
    """Lattice values of registers, raised until no transfer function changes any of them."""

    def __init__(self, program: Program, block: ThreadBlockShape, pinned: Iterable[str], frame_bytes: int) -> None:
        self.constants = integer_constants(program)
        self._context = AffineContext(self.constants, block.lanes)
        self._frame = frame_bytes
        self._specials = block.specials()
        self._registers = program.registers
        self._shared = program.shared
        self._variables = program.variables
        self._values: dict[str, LatticeValue] = dict.fromkeys(pinned, LatticeValue(VARYING))
        self._definitions: list[_Definition] = []
        self._users: dict[str, list[int]] = {}
        for one in program.blocks:
            for instruction in one.code:
                self._define(instruction)
        # Popped from the end: the first visit is in program order, in which most sources are known.
        self._work = list(range(len(self._definitions)))[::-1]

    def _define(self, instruction: Instruction) -> None:
        sources = {name for name in map(_name, flattened(split_operands(instruction)[1])) if name}
        if instruction.guard is not None:
            sources.add(instruction.guard.register.name)
        for name in registers_written(instruction):
            index = len(self._definitions)
            # Floats round, so that base + lane * step is not what PTX defines; 16-bit registers hold no indices.
            affine = self._registers.get(name, "")[-2:] in ("32", "64") and self._registers[name][0] != "f"
            self._definitions.append(_Definition(name, instruction, affine))
            for source in sources:
                self._users.setdefault(source, []).append(index)

    def initialise(self, registers: Iterable[str]) -> None:
        """Give registers a uniform value before their first definition."""
        for name in registers:
            self._raise(name, LatticeValue(UNIFORM))

    def force_varying(self, registers: Iterable[str]) -> None:
        """Raise registers to varying, whatever their definitions compute."""
        for name in registers:
            self._raise(name, LatticeValue(VARYING))

    def shape(self, operand: Operand) -> VectorShape:
        """Return the shape of an operand; uniform as long as nothing is known."""
        return (self._known(operand) or LatticeValue(UNIFORM)).shape

    def shapes(self) -> dict[str, VectorShape]:
        """Return the shape of every register."""
        return {name: (self._values.get(name) or LatticeValue(UNIFORM)).shape for name in self._registers}

    def solve(self) -> None:
        """Evaluate definitions until no value changes."""
        while self._work:
            definition = self._definitions[self._work.pop()]
            old = self._values.get(definition.register)
            # Varying is the top of the lattice: no definition can raise it.
            if old is not None and old.shape.varying:
                continue
            value = self._evaluate(definition)
            if value is not None:
                self._raise(definition.register, value)

    def _raise(self, name: str, value: LatticeValue) -> None:
        old = self._values.get(name)
        new = join(old, value)
        if new != old:
            self._values[name] = new
            self._work.extend(self._users.get(name, ()))

    def _known(self, operand: Operand) -> LatticeValue | None:
        """Return the value of an operand, None while none of its definitions has been evaluated."""
        if isinstance(operand, Address):
            return self._known(operand.base)
        if isinstance(operand, Negated):
            return self._known(operand.register)
        if isinstance(operand, Immediate):
            return LatticeValue(UNIFORM, trailing_zeros(operand.bits))
        if isinstance(operand, Register):
            if operand.name in self._registers:
                return self._values.get(operand.name)
            return self._specials.get(operand.name, LatticeValue(UNIFORM))
        return LatticeValue(UNIFORM, self._address_zeros(operand) if isinstance(operand, Symbol) else 0)

    def _address_zeros(self, symbol: Symbol) -> int:
        """Return the number of low bits that are known to be zero in the address of a variable."""
        # Shared variables are packed: only their offset in the window says how they are aligned.
        slot = self._shared.get(symbol.name)
        if slot is not None:
            return trailing_zeros(symbol.offset + slot.offset)
        # Functions, parameters and local variables are at addresses about which nothing is assumed.
        return min(trailing_zeros(symbol.offset), WINDOW_ZEROS) if symbol.name in self._variables else 0

    def _evaluate(self, definition: _Definition) -> LatticeValue | None:
        """Apply the transfer function of a definition; None while a source is not known yet."""
        instruction = definition.instruction
        if instruction.opcode in _ALWAYS_VARYING:
            return LatticeValue(VARYING)
        guard = instruction.guard
        # Lanes that are switched off keep the old value of the register.
        if guard is not None and not (self._known(guard.register) or LatticeValue(UNIFORM)).shape.uniform:
            return LatticeValue(VARYING)
        known = [self._known(source) for source in flattened(split_operands(instruction)[1])]
        # Lanes with different member masks, the last operand, vote and reduce in different groups.
        if instruction.opcode in _OVER_MEMBERS and known[-1] is not None and not known[-1].shape.uniform:
            return LatticeValue(VARYING)
        if "cc" in instruction.modifiers or instruction.opcode in ("addc", "subc", "madc"):
            known.append(self._values.get(CARRY, LatticeValue(UNIFORM)))
        values: list[LatticeValue] = []
        for one in known:
            # Bottom in, bottom out: the definition is evaluated again when the source is known.
            if one is None:
                return None
            values.append(one)
        if instruction.opcode == "ld":
            return self._load(instruction, values[0].shape)
        if any(value.shape.varying for value in values):
            return LatticeValue(VARYING)
        if instruction.opcode == "cvta" and "local" in instruction.modifiers:
            # Frames of local memory lie next to each other in the generic window, one per thread.
            shape = values[0].shape
            frame = -self._frame if "to" in instruction.modifiers else self._frame
            if not definition.affine:
                return LatticeValue(VARYING)
            return LatticeValue(VectorShape(shape.per_part, shape.step + frame))
        per_part = any(value.shape.per_part for value in values)
        rule = AFFINE_RULES.get(instruction.opcode)
        result = rule(self._context, instruction, values) if rule is not None else None
        if result is None:
            # Any function of uniform values is uniform; an unknown function of an affine value is not affine.
            uniform = all(value.shape.part_uniform for value in values)
            result = LatticeValue(VectorShape(per_part)) if uniform else LatticeValue(VARYING)
        step = result.shape.step
        if step and (not definition.affine or abs(step) > _MAX_STEP):
            return LatticeValue(VARYING)
        return result

    def _load(self, instruction: Instruction, address: VectorShape) -> LatticeValue:
        # One address in local memory is a different place for every lane.
        if memory_space(instruction) == "local" or not address.part_uniform:
            return LatticeValue(VARYING)
        return LatticeValue(VectorShape(address.per_part))


def _name(operand: Operand) -> str | None:
    match operand:
        case Register(name) | Address(Register(name), _) | Negated(Register(name)):
            return name
        case _:
            return None
