"""The register file of a warp function: register values by shape, and the slots of registers that outlive a block.

A uniform or affine register is one scalar base for the warp (or per part), a varying one a vector per part. Inside a
basic block a register is the SSA value last written to it. A register that is live across blocks also has *slots*, one
per scalar or vector: stack slots, which LLVM promotes to SSA values (SROA), or memory in the warp's context, where a
suspended warp keeps them anyway (:mod:`~gpuemu_lsp.engine.emulator.analysis.register_home` decides).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen.core.masks import LaneMasks
from gpuemu_lsp.engine.emulator.codegen.core.register_types import memory_type, part_stride, register_type
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.ir.lattice import UNIFORM, VectorShape
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, Value
from gpuemu_lsp.engine.ptx.model import Immediate, Negated, Operand, Register

K = TypeVar("K")
V = TypeVar("V")


class ScopedTable(Generic[K, V]):
    """A mapping whose changes since a mark can be undone, at a cost proportional to their number.

    Used as LLVM uses ``ScopedHashTable`` in EarlyCSE: values that are computed in a conditional block do not dominate
    the code after it, and must not be found there.
    """

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self._undo_log: list[tuple[K, V | None]] = []

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, or None."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``."""
        self._undo_log.append((key, self._values.get(key)))
        self._values[key] = value

    def drop(self, key: K) -> None:
        """Remove ``key``."""
        value = self._values.pop(key, None)
        if value is not None:
            self._undo_log.append((key, value))

    def clear(self) -> None:
        """Remove everything and invalidate all marks."""
        self._values.clear()
        self._undo_log.clear()

    @property
    def mark(self) -> int:
        """The current state, as an argument for :meth:`roll_back`."""
        return len(self._undo_log)

    def roll_back(self, mark: int) -> None:
        """Undo all changes since ``mark``, which stays valid."""
        while len(self._undo_log) > mark:
            key, value = self._undo_log.pop()
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value


@dataclass(frozen=True, slots=True)
class ScopeMark:
    """Marks of the tables of a register file at one position of a block."""

    values: int
    derived: int


class RegisterFile(LaneMasks):
    """Reads and writes PTX registers, as scalars or as vectors of one part."""

    def __init__(self, unit: TranslationUnit, module: ir.Module, name: str) -> None:
        super().__init__(unit, module, name)
        # Keys: register, part (0 where one base serves the warp), and whether the value is a vector.
        self._values: ScopedTable[tuple[str, int, bool], Value] = ScopedTable()
        self._derived: ScopedTable[str, Mapping[tuple[object, ...], Value]] = ScopedTable()
        self._stack_slots: dict[str, list[Value]] = {}
        self._with_slots = frozenset(unit.context_offsets)

    def begin_block(self, number: int) -> None:
        """Make PTX basic block ``number`` the current one, with no values of registers cached."""
        super().begin_block(number)
        # The dispatcher and resumption are further predecessors of most blocks: no value of another block dominates
        # this one. SROA and GVN remove the loads from slots that this makes superfluous.
        self._values.clear()
        self._derived.clear()

    # ---- conditional blocks ------------------------------------------------------------------------------------------

    def snapshot(self) -> ScopeMark:
        """Return the state of the cached values, to be passed to :meth:`restore` after a conditional block."""
        return ScopeMark(self._values.mark, self._derived.mark)

    def restore(self, mark: ScopeMark, written: Sequence[str] = ()) -> None:
        """Forget values cached since ``mark``, and all values of the registers ``written`` in between."""
        self._values.roll_back(mark.values)
        self._derived.roll_back(mark.derived)
        for name in written:
            self._derived.drop(name)
            for part in range(self.parts):
                self._values.drop((name, part, False))
                self._values.drop((name, part, True))

    def derived(self, name: str, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        """Return a value computed from a register, such as a checked host address, once until the register changes."""
        value = (self._derived.get(name) or {}).get(key)
        if value is None:
            value = make()
            self._derived.put(name, {**(self._derived.get(name) or {}), key: value})
        return value

    # ---- shapes ------------------------------------------------------------------------------------------------------

    def shape(self, operand: Operand) -> VectorShape:
        """Return the shape of an operand's value."""
        if isinstance(operand, Negated):
            operand = operand.register
        if isinstance(operand, Register):
            shape = self.unit.divergence.shapes.get(operand.name)
            if shape is not None:
                return shape
            value = self.unit.block_shape.specials().get(operand.name)
            return value.shape if value is not None else UNIFORM
        return UNIFORM

    def constant(self, operand: Operand) -> int | None:
        """Return the integer that an operand is known to hold, or None."""
        if isinstance(operand, Immediate) and operand.kind == "int":
            return operand.bits
        return self.unit.divergence.constants.get(operand.name) if isinstance(operand, Register) else None

    def register_type(self, name: str) -> ir.Type:
        """Return the LLVM type of one lane of a register."""
        return register_type(self.unit.program.registers[name])

    def result_parts(self, name: str) -> Sequence[int]:
        """Return the parts for which a result must be written: only 0 where one base serves the warp."""
        if name == "_":
            return range(0)
        return range(self.slot_count(name))

    # ---- slots -------------------------------------------------------------------------------------------------------

    def registers_with_slots(self) -> list[str]:
        """Return the registers that outlive a block, sorted."""
        return sorted(self._with_slots)

    def slot_type(self, name: str) -> ir.Type:
        """Return the LLVM type of one slot of a register: a vector if it is varying."""
        scalar = self.register_type(name)
        return ir.VectorType(scalar, self.lanes) if self.unit.divergence.shapes[name].varying else scalar

    def slot_count(self, name: str) -> int:
        """Return the number of scalars or vectors that hold a register."""
        shape = self.unit.divergence.shapes[name]
        return self.parts if shape.varying or shape.per_part else 1

    def load_slot(self, name: str, index: int) -> Value:
        """Load one of a register's scalars or vectors."""
        if name in self.unit.in_memory:
            return self.load_saved(name, index, self.slot_type(name))
        return self.builder.load(self._stack(name)[index])

    def store_slot(self, name: str, index: int, value: Value) -> None:
        """Store one of a register's scalars or vectors."""
        if name in self.unit.in_memory:
            self.store_saved(name, index, value)
        else:
            self.builder.store(value, self._stack(name)[index])

    def _stack(self, name: str) -> list[Value]:
        slots = self._stack_slots.get(name)
        if slots is None:
            # In the entry block: LLVM promotes only the allocas that it finds there.
            type_ = self.slot_type(name)
            slots = self._stack_slots[name] = [self.preamble.alloca(type_) for _ in range(self.slot_count(name))]
        return slots

    def load_saved(self, name: str, index: int, type_: ir.Type) -> Value:
        """Load one of a register's values, of type ``type_``, from the warp's context."""
        b = self.builder
        in_memory = memory_type(type_)
        offset = self.unit.context_offsets[name] + index * part_stride(in_memory)
        value = t.load(b, self.context, offset, in_memory, align=1)
        if in_memory == type_:
            return value
        return b.trunc(value, type_) if type_ == I1 else b.bitcast(value, type_)

    def store_saved(self, name: str, index: int, value: Value) -> None:
        """Store one of a register's values in the warp's context."""
        value = _in_memory(self.builder, value)
        offset = self.unit.context_offsets[name] + index * part_stride(value.type)
        t.store(self.builder, value, self.context, offset, align=1)

    def parts_of(self, name: str) -> list[Value]:
        """Return the scalars or vectors that hold a register at the current position, in memory types."""
        parts = [self._read(name, index) for index in range(self.slot_count(name))]
        return [_in_memory(self.builder, part) for part in parts]

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _read(self, name: str, part: int) -> Value:
        """Return a register in its own shape: the vector of a part, or a scalar base."""
        shape = self.unit.divergence.shapes[name]
        key = (name, part if shape.varying or shape.per_part else 0, shape.varying)
        value = self._values.get(key)
        if value is None:
            if name in self._with_slots:
                value = self.load_slot(name, key[1])
            else:
                # Read in its only block before it is written: undefined, so that zero is as good as any value.
                scalar = self.register_type(name)
                value = ir.Constant(ir.VectorType(scalar, self.lanes) if shape.varying else scalar, None)
            self._values.put(key, value)
        return value

    def base(self, name: str, part: int) -> Value:
        """Return the scalar base of a register that is not varying: of the warp, or of ``part``."""
        return self._read(name, part)

    def base_of_part(self, value: Value, shape: VectorShape, part: int) -> Value:
        """Return the value in the first lane of ``part``, given the base ``value`` of the warp or of the part."""
        if shape.per_part or not shape.step or not part:
            return value
        return self.builder.add(value, _integer(value.type, shape.step * part * self.lanes))

    def vector(self, name: str, part: int) -> Value:
        """Return a register of any shape as the vector of one part."""
        shape = self.unit.divergence.shapes[name]
        if shape.varying:
            return self._read(name, part)
        key = (name, part, True)
        value = self._values.get(key)
        if value is None:
            value = self.affine_vector(self.base_of_part(self._read(name, part), shape, part), shape.step)
            self._values.put(key, value)
        return value

    def affine_vector(self, base: Value, step: int) -> Value:
        """Return the vector base, base + step, base + 2 step, ..."""
        vector = t.splat(self.builder, base, self.lanes)
        return self.builder.add(vector, t.iota(base.type, self.lanes, step)) if step else vector

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _set_base(self, name: str, part: int, value: Value) -> None:
        shape = self.unit.divergence.shapes[name]
        index = part if shape.per_part else 0
        self._derived.drop(name)
        if name in self._with_slots:
            # Unconditional even in a divergent block: the analysis makes a register varying if a lane that waits
            # elsewhere could still need its old value.
            self.store_slot(name, index, value)
        # Vectors of all parts may have been computed from the old base.
        for other in range(self.parts):
            self._values.drop((name, other, True))
        self._values.put((name, index, False), value)

    def _set_vector(self, name: str, part: int, value: Value) -> None:
        if name in self._with_slots:
            # Lanes that wait elsewhere keep their value. Where none can, the block mask need not be applied: the other
            # lanes have exited. A guard always does, since lanes with a false guard continue with the old value.
            mask = self.active(part) if self.divergent else None if self._guard is None else self._guard[part]
            if mask is not None:
                # A select and a full store instead of a masked store, which SROA could not promote.
                value = self.builder.select(mask, value, self._read(name, part))
            self.store_slot(name, part, value)
        self._values.put((name, part, True), value)


def _in_memory(b: ir.IRBuilder, value: Value) -> Value:
    """Return a value in the type in which it is saved."""
    type_ = memory_type(value.type)
    if type_ == value.type:
        return value
    return b.zext(value, type_) if value.type == I1 else b.bitcast(value, type_)


def _integer(type_: ir.IntType, value: int) -> Value:
    return ir.Constant(type_, value & ((1 << type_.width) - 1))
