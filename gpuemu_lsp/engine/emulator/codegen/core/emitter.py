"""The state of one translation: registers, their values in the shapes code wants them in, masks.

Everything that writes instructions works through an :class:`Emitter`; what each kind of instruction does stands in the
modules beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_lanes, load_pointer
from gpuemu_lsp.engine.emulator.abi.fields import Field
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.journal import Journal
from gpuemu_lsp.engine.emulator.codegen.core.literals import literal, register_type, stored, stride
from gpuemu_lsp.engine.emulator.codegen.core.special_registers import special_base, special_vector
from gpuemu_lsp.engine.emulator.codegen.core.unit import Unit, used_registers
from gpuemu_lsp.engine.emulator.ir.lattice import UNIFORM, VectorShape
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, Value, i32, i64
from gpuemu_lsp.engine.emulator.llvm.text_builder import Builder, use_numbered_names
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Negated, Operand, Register, Symbol


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about registers at one point of a block."""

    values: int
    checked: int


@dataclass(frozen=True, slots=True)
class Group:
    """Loads of one block that are allowed all at once, in their order."""

    members: tuple[Instruction, ...]


class Emitter:
    """Writes one ``i32 warp(ptr context)`` function."""

    def __init__(self, unit: Unit, module: ir.Module, name: str) -> None:
        self.unit = unit
        self.module = module
        self.lanes = unit.block.lanes
        self.parts = unit.block.parts
        self.function = ir.Function(module, ir.FunctionType(I32, [POINTER]), name)
        self.context = self.function.args[0]
        use_numbered_names(self.function)
        self.entry = self.function.append_basic_block("entry")
        self.preamble = Builder(self.entry)
        self.builder = Builder(self.entry)
        self.mask_slot = self.preamble.alloca(I32)
        self.alive_slot = self.preamble.alloca(I32)
        self.number = 0
        self.position = 0
        self.groups: Mapping[int, Group] = {}
        self.allowed_groups: dict[int, Value] = {}
        self._once: dict[str, Value] = {}
        self._values: Journal[tuple[str, int, bool], Value] = Journal()
        self._checked: Journal[str, Mapping[tuple[object, ...], Value]] = Journal()
        self._masks: dict[int, Value] = {}
        self._mask32: Value | None = None
        self._guard: list[Value] | None = None
        self._storage: dict[str, list[Value]] = {}
        self._homes = frozenset(unit.saved)
        self.used = used_registers(unit.program)
        self._sites = [0]
        for block in unit.program.blocks:
            self._sites.append(self._sites[-1] + len(block.code) + 1)

    # ---- where we are ------------------------------------------------------------------------------------------------

    def begin_block(self, number: int) -> None:
        """Start writing PTX block ``number``: no value is known yet."""
        self.number = number
        self.position = 0
        self.groups = {}
        self.allowed_groups = {}
        self._values.clear()
        self._checked.clear()
        self.forget_masks()

    @property
    def site(self) -> int:
        """The number of the current instruction, the same in every translation of the program."""
        return self.site_at(self.position)

    def site_at(self, position: int) -> int:
        """Return the number of an instruction of the current block."""
        return self._sites[self.number] + position

    @property
    def partial(self) -> bool:
        """Whether the current block may run without all 32 lanes."""
        return self.number in self.unit.info.partial

    @property
    def divergent(self) -> bool:
        """Whether living lanes may be waiting elsewhere while the current block runs."""
        return self.number in self.unit.info.divergent

    def append_block(self, name: str = "") -> ir.Block:
        """Add a basic block."""
        return self.function.append_basic_block(name)

    def unlikely(self, condition: Value, name: str) -> tuple[ir.Block, ir.Block]:
        """Branch to a new block when ``condition`` holds, which is rare; return (that block, the ordinary way)."""
        rare, usual = self.append_block(name), self.append_block()
        branch = self.builder.cbranch(condition, rare, usual)
        branch.set_weights([1, 2000])
        return rare, usual

    # ---- things read once --------------------------------------------------------------------------------------------

    def once(self, key: str, base: str, field: Field, *, lanes: int = 1, pointer: bool = False) -> Value:
        """Return a field of a record, loaded at the start of the function. ``base`` is context, launch or block."""
        value = self._once.get(key)
        if value is None:
            if base == "context":
                record = self.context
            else:
                record = self._once.get(base)
                if record is None:
                    link = Warp.LAUNCH if base == "launch" else Warp.BLOCK
                    record = self._once[base] = load_pointer(self.preamble, self.context, link)
            if pointer:
                value = load_pointer(self.preamble, record, field)
            elif lanes > 1:
                value = load_lanes(self.preamble, record, field, lanes)
            else:
                value = load_field(self.preamble, record, field)
            self._once[key] = value
        return value

    def launch(self, field: Field) -> Value:
        """Return a field of the launch record."""
        return self.once(f"launch+{field}", "launch", field)

    def launch_pointer(self, field: Field) -> Value:
        """Return an address in the launch record as a pointer."""
        return self.once(f"launch+{field} as pointer", "launch", field, pointer=True)

    # ---- masks -------------------------------------------------------------------------------------------------------

    def forget_masks(self) -> None:
        """The set of running lanes may have changed."""
        self._masks.clear()
        self._mask32 = None

    def mask32(self) -> Value:
        """Return the running lanes as bits, guard not counted."""
        if not self.partial:
            return i32(-1)
        if self._mask32 is None:
            self._mask32 = self.builder.load(self.mask_slot, typ=I32)
        return self._mask32

    def alive32(self) -> Value:
        """Return the living lanes as bits."""
        if not self.divergent:
            return self.mask32()
        return self.builder.load(self.alive_slot, typ=I32)

    def active32(self) -> Value:
        """Return the lanes the current instruction acts for, as bits."""
        if self._guard is None:
            return self.mask32()
        return self.builder.and_(self.bits(self._guard), self.mask32())

    def active(self, part: int) -> Value | None:
        """Return the lanes of one part the current instruction acts for; None means all."""
        if not self.partial:
            return None if self._guard is None else self._guard[part]
        mask = self._masks.get(part)
        if mask is None:
            mask = self._masks[part] = self.unpack(self.mask32(), part)
        return mask if self._guard is None else self.builder.and_(mask, self._guard[part])

    def unpack(self, bits: Value, part: int) -> Value:
        """Return one part of a 32-bit mask as a vector of i1."""
        if part:
            bits = self.builder.lshr(bits, i32(part * self.lanes))
        narrow = self.builder.trunc(bits, ir.IntType(self.lanes))
        return self.builder.bitcast(narrow, ir.VectorType(I1, self.lanes))

    def bits(self, parts: Sequence[Value]) -> Value:
        """Return vectors of i1, one per part, as the bits of an i32."""
        b = self.builder
        result = None
        for part, vector in enumerate(parts):
            wide = b.zext(b.bitcast(vector, ir.IntType(self.lanes)), I32)
            if part:
                wide = b.shl(wide, i32(part * self.lanes))
            result = wide if result is None else b.or_(result, wide)
        return result

    def any(self, parts: Sequence[Value]) -> Value:
        """Return whether any bit of any of the i1 vectors is set."""
        b = self.builder
        result = parts[0]
        for vector in parts[1:]:
            result = b.or_(result, vector)
        narrow = ir.IntType(self.lanes)
        return b.icmp_unsigned("!=", b.bitcast(result, narrow), ir.Constant(narrow, 0))

    def settle_masks(self) -> None:
        """Compute masks here, where they hold for all that follows, before a side path would."""
        for part in range(self.parts):
            self.active(part)

    @property
    def guard_given(self) -> bool:
        """Whether the current instruction acts under a guard that varies."""
        return self._guard is not None

    @contextmanager
    def guarded(self, guard: list[Value]) -> Iterator[None]:
        """Let the instructions inside act only for the lanes of ``guard`` (one i1 vector per part)."""
        self._guard = guard
        yield
        self._guard = None

    def snapshot(self) -> Known:
        """Return what is known, to be given back to :meth:`restore` when a side path ends."""
        return Known(self._values.mark, self._checked.mark)

    def restore(self, known: Known, changed: Sequence[str] = ()) -> None:
        """Forget what was learnt on a side path, and all about the registers it ``changed``."""
        self._values.back(known.values)
        self._checked.back(known.checked)
        for name in changed:
            self._checked.drop(name)
            for part in range(self.parts):
                self._values.drop((name, part, False))
                self._values.drop((name, part, True))

    def checked_base(self, name: str, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        """Return a value derived from a register, made once while the register keeps its value."""
        value = (self._checked.get(name) or {}).get(key)
        if value is None:
            value = make()
            self._checked.put(name, {**(self._checked.get(name) or {}), key: value})
        return value

    def prepared(self, key: str, make: Callable[[ir.IRBuilder], Value]) -> Value:
        """Return a value computed once, at the start of the function."""
        value = self._once.get(key)
        if value is None:
            value = self._once[key] = make(self.preamble)
        return value

    # ---- registers ---------------------------------------------------------------------------------------------------

    def shape(self, operand: Operand) -> VectorShape:
        """Return the form of an operand's value."""
        if isinstance(operand, Negated):
            operand = operand.register
        if isinstance(operand, Register):
            shape = self.unit.info.shapes.get(operand.name)
            if shape is not None:
                return shape
            fact = self.unit.block.specials().get(operand.name)
            return fact.shape if fact is not None else UNIFORM
        return UNIFORM

    def constant(self, operand: Operand) -> int | None:
        """Return the integer an operand is known to hold."""
        if isinstance(operand, Immediate) and operand.kind == "int":
            return operand.bits
        return self.unit.info.constants.get(operand.name) if isinstance(operand, Register) else None

    def register_type(self, name: str) -> ir.Type:
        """Return the LLVM type one lane of a register is kept in."""
        return register_type(self.unit.program.registers[name])

    def _places(self, name: str) -> list[Value]:
        """Return the allocas of a register that outlives a block: one, or one per part."""
        slots = self._storage.get(name)
        if slots is None:
            type_ = self.kept_type(name)
            slots = self._storage[name] = [self.preamble.alloca(type_) for _ in range(self.kept_parts(name))]
        return slots

    def kept_type(self, name: str) -> ir.Type:
        """Return the LLVM type a register is kept in: a vector where it varies."""
        scalar = self.register_type(name)
        return ir.VectorType(scalar, self.lanes) if self.unit.info.shapes[name].varying else scalar

    def kept_parts(self, name: str) -> int:
        """Return how many values a register is kept in."""
        shape = self.unit.info.shapes[name]
        return self.parts if shape.varying or shape.per_part else 1

    def load_home(self, name: str, index: int) -> Value:
        """Load one of a register's values from where it outlives blocks."""
        if name in self.unit.in_memory:
            return self.load_saved(name, index, self.kept_type(name))
        return self.builder.load(self._places(name)[index])

    def store_home(self, name: str, index: int, value: Value) -> None:
        """Store one of a register's values where it outlives blocks."""
        if name in self.unit.in_memory:
            self.store_saved(name, index, value)
        else:
            self.builder.store(value, self._places(name)[index])

    def load_saved(self, name: str, index: int, type_: ir.Type) -> Value:
        """Load a value of a register from the warp's context, where it lies as a ``type_``."""
        b = self.builder
        kept = stored(type_)
        value = t.load(b, self.context, self.unit.saved[name] + index * stride(kept), kept, align=1)
        if kept == type_:
            return value
        return b.trunc(value, type_) if type_ == I1 else b.bitcast(value, type_)

    def store_saved(self, name: str, index: int, value: Value) -> None:
        """Store a value of a register in the warp's context."""
        b = self.builder
        kept = stored(value.type)
        if kept != value.type:
            value = b.zext(value, kept) if value.type == I1 else b.bitcast(value, kept)
        t.store(b, value, self.context, self.unit.saved[name] + index * stride(kept), align=1)

    def homes(self) -> list[str]:
        """Return the registers that outlive a block."""
        return sorted(self._homes)

    def _read(self, name: str, part: int) -> Value:
        """Return a register as it is kept: its vector, or its base."""
        shape = self.unit.info.shapes[name]
        key = (name, part if shape.varying or shape.per_part else 0, shape.varying)
        value = self._values.get(key)
        if value is None:
            if name in self._homes:
                value = self.load_home(name, key[1])
            else:  # read before anything was written: any value will do
                scalar = self.register_type(name)
                value = ir.Constant(ir.VectorType(scalar, self.lanes) if shape.varying else scalar, None)
            self._values.put(key, value)
        return value

    def base(self, name: str, part: int) -> Value:
        """Return the scalar base of a register that does not vary: of the warp, or of ``part``."""
        return self._read(name, part)

    def base_at(self, name: str, part: int) -> Value:
        """Return the value in the first lane of ``part``."""
        shape = self.unit.info.shapes[name]
        value = self._read(name, part)
        return self.offset(value, shape, part)

    def offset(self, value: Value, shape: VectorShape, part: int) -> Value:
        """Return a stepping value in the first lane of ``part``, from the warp's base."""
        if shape.per_part or not shape.step or not part:
            return value
        return self.builder.add(value, _integer(value.type, shape.step * part * self.lanes))

    def vector(self, name: str, part: int) -> Value:
        """Return a register as a vector of one part."""
        shape = self.unit.info.shapes[name]
        if shape.varying:
            return self._read(name, part)
        key = (name, part, True)
        value = self._values.get(key)
        if value is None:
            value = self.spread(self.base_at(name, part), shape.step)
            self._values.put(key, value)
        return value

    def spread(self, base: Value, step: int) -> Value:
        """Return the vector base, base + step, ..."""
        vector = t.splat(self.builder, base, self.lanes)
        return self.builder.add(vector, t.iota(base.type, self.lanes, step)) if step else vector

    # ---- operands ----------------------------------------------------------------------------------------------------

    def scalar_operand(self, operand: Operand, type_: str, part: int) -> Value:
        """Return an operand's base as PTX type ``type_``: of the warp, or of ``part``."""
        if isinstance(operand, Negated):
            return self.builder.not_(self.scalar_operand(operand.register, "pred", part))
        if isinstance(operand, Register) and operand.name in self.unit.program.registers:
            return ops.read_as(self.builder, self.base(operand.name, part), type_)
        if isinstance(operand, Register):
            return ops.read_as(self.builder, special_base(self, operand.name, part), type_)
        return self.literal(operand, type_)

    def scalar_operand_for(self, operand: Operand, type_: str, part: int, parts: int) -> Value:
        """Return an operand's base for a result kept in ``parts`` parts: of ``part`` when there are several."""
        return self.first_lane_operand(operand, type_, part) if parts > 1 else self.scalar_operand(operand, type_, 0)

    def first_lane_operand(self, operand: Operand, type_: str, part: int) -> Value:
        """Return an operand's value in the first lane of ``part``, for operands that do not vary."""
        value = self.scalar_operand(operand, type_, part)
        return self.offset(value, self.shape(operand), part)

    def vector_operand(self, operand: Operand, type_: str, part: int) -> Value:
        """Return an operand as a vector of one part, of PTX type ``type_``."""
        if isinstance(operand, Negated):
            return self.builder.not_(self.vector_operand(operand.register, "pred", part))
        if isinstance(operand, Register):
            if operand.name in self.unit.program.registers:
                return ops.read_as(self.builder, self.vector(operand.name, part), type_)
            return ops.read_as(self.builder, special_vector(self, operand.name, part), type_)
        return t.splat(self.builder, self.literal(operand, type_), self.lanes)

    def literal(self, operand: Operand, type_: str) -> Value:
        """Return an immediate or the address of a variable as a scalar of PTX type ``type_``."""
        if isinstance(operand, Symbol):
            return ops.read_as(self.builder, self.symbol(operand), type_)
        assert isinstance(operand, Immediate)
        return literal(operand, type_)

    def symbol(self, symbol: Symbol) -> Value:
        """Return a variable's address in its window as an i64 (PTX ISA section 6.4.2)."""
        program = self.unit.program
        for window in (program.shared, program.local):
            slot = window.get(symbol.name)
            if slot is not None:
                return i64(slot.offset + symbol.offset)
        slot = program.params.get(symbol.name)
        if slot is not None:
            return self.builder.add(self.launch(LaunchRecord.PARAMS), i64(slot.offset + symbol.offset))
        index = self.unit.symbols.get(symbol.name)
        if index is None:
            return i64(program.function_address(symbol.name) or 0)
        table = self.launch_pointer(LaunchRecord.SYMBOLS)
        return self.builder.add(t.load(self.builder, table, index * 8, I64), i64(symbol.offset))

    # ---- results -----------------------------------------------------------------------------------------------------

    def put_base(self, name: str, part: int, value: Value, type_: str) -> None:
        """Write the base of a register that does not vary."""
        if name == "_":
            return
        shape = self.unit.info.shapes[name]
        value = ops.write_as(self.builder, value, type_, self.register_type(name))
        index = part if shape.per_part else 0
        self._checked.drop(name)
        if name in self._homes:
            self.store_home(name, index, value)
        for other in range(self.parts):
            self._values.drop((name, other, True))
        self._values.put((name, index, False), value)

    def put_vector(self, name: str, part: int, value: Value, type_: str) -> None:
        """Write one part of a varying register, for the active lanes only where others still need theirs."""
        if name == "_":
            return
        value = ops.write_as(self.builder, value, type_, self.register_type(name))
        if name in self._homes:
            mask = self.active(part) if self.divergent else None if self._guard is None else self._guard[part]
            if mask is not None:
                value = self.builder.select(mask, value, self._read(name, part))
            self.store_home(name, part, value)
        self._values.put((name, part, True), value)

    def put(self, name: str, part: int, value: Value, type_: str) -> None:
        """Write a scalar or a vector to a register of any shape: scalars are spread where it varies."""
        if name == "_":
            return
        if self.unit.info.shapes[name].varying:
            if not isinstance(value.type, ir.VectorType):
                value = t.splat(self.builder, value, self.lanes)
            self.put_vector(name, part, value, type_)
        else:
            self.put_base(name, part, value, type_)

    def result_parts(self, name: str) -> Sequence[int]:
        """Return the parts a register is kept in: only 0 when there is one base for the warp."""
        if name == "_":
            return range(0)
        shape = self.unit.info.shapes[name]
        return range(self.parts) if shape.varying or shape.per_part else range(1)


def _integer(type_: ir.IntType, value: int) -> Value:
    return ir.Constant(type_, value & ((1 << type_.width) - 1))
