"""The state of one translation: registers, their values in the shapes code wants them in, masks.

Everything that writes instructions works through an :class:`Emitter`; what each kind of instruction does stands in the
modules beside this one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.codegen import ir_tools as t
from gpuemu_lsp.engine.emulator.codegen.ir_tools import I1, I32, I64, POINTER, Value, i32, i64
from gpuemu_lsp.engine.emulator.graph import Graph
from gpuemu_lsp.engine.emulator.layout import Block, Launch, Warp
from gpuemu_lsp.engine.emulator.liveness import Liveness
from gpuemu_lsp.engine.emulator.operands import read, read_at_end, written
from gpuemu_lsp.engine.emulator.program import Program
from gpuemu_lsp.engine.emulator.shapes import UNIFORM, VARYING, WARP, BlockShape, Shape
from gpuemu_lsp.engine.emulator.uniformity import Uniformity
from gpuemu_lsp.engine.ptx.model import Immediate, Negated, Operand, Register, Symbol


@dataclass(frozen=True, slots=True)
class Unit:
    """What is to be translated: a program, all that is known about it, and the block shape it is translated for.

    ``general`` asks for the translation that assumes nothing and lets lanes of a warp run and wait independently.
    ``symbols`` gives each module variable its place in the launch's symbol table.
    """

    program: Program
    graph: Graph
    live: Liveness
    info: Uniformity
    block: BlockShape
    general: bool
    symbols: Mapping[str, int]
    saved: Mapping[str, int]
    """Byte offset, in a warp's context, of each register that outlives a block."""
    specialised: Mapping[str, Shape]
    """Shapes in which specialised code saves registers; the general code reads them when it takes over."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about registers at one point of a block."""

    values: dict[tuple[str, int, bool], Value]
    checked: dict[str, dict[tuple[object, ...], Value]]


class Emitter:
    """Writes one ``i32 warp(ptr context)`` function."""

    def __init__(self, unit: Unit, module: ir.Module, name: str) -> None:
        self.unit = unit
        self.module = module
        self.lanes = unit.block.lanes
        self.parts = unit.block.parts
        self.function = ir.Function(module, ir.FunctionType(I32, [POINTER]), name)
        self.context = self.function.args[0]
        self.entry = self.function.append_basic_block("entry")
        self.preamble = ir.IRBuilder(self.entry)
        self.builder = ir.IRBuilder(self.entry)
        self.mask_slot = self.preamble.alloca(I32)
        self.alive_slot = self.preamble.alloca(I32)
        self.number = 0
        self.position = 0
        self._once: dict[str, Value] = {}
        self._values: dict[tuple[str, int, bool], Value] = {}
        self._checked: dict[str, dict[tuple[object, ...], Value]] = {}
        self._masks: dict[int, Value] = {}
        self._mask32: Value | None = None
        self._guard: list[Value] | None = None
        self._storage: dict[str, list[Value]] = {}
        self._homes = frozenset(unit.saved)
        self.used = _used(unit.program)
        self._sites = [0]
        for block in unit.program.blocks:
            self._sites.append(self._sites[-1] + len(block.code) + 1)

    # ---- where we are ------------------------------------------------------------------------------------------------

    def begin_block(self, number: int) -> None:
        """Start writing PTX block ``number``: no value is known yet."""
        self.number = number
        self.position = 0
        self._values.clear()
        self._checked.clear()
        self.forget_masks()

    @property
    def site(self) -> int:
        """The number of the current instruction, the same in every translation of the program."""
        return self._sites[self.number] + self.position

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

    def once(self, key: str, base: str, offset: int, type_: ir.Type) -> Value:
        """Return a field of a record, loaded at the start of the function. ``base`` is context, launch or block."""
        value = self._once.get(key)
        if value is None:
            if base == "context":
                pointer = self.context
            else:
                field = Warp.LAUNCH if base == "launch" else Warp.BLOCK
                pointer = self._once.get(base)
                if pointer is None:
                    pointer = self._once[base] = t.load(self.preamble, self.context, field, POINTER)
            value = self._once[key] = t.load(self.preamble, pointer, offset, type_)
        return value

    def launch(self, offset: int, type_: ir.Type) -> Value:
        """Return a field of the launch record."""
        return self.once(f"launch+{offset}", "launch", offset, type_)

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
        return Known(dict(self._values), {name: dict(found) for name, found in self._checked.items()})

    def restore(self, known: Known, changed: Sequence[str] = ()) -> None:
        """Forget what was learnt on a side path, and all about the registers it ``changed``."""
        self._values = {key: value for key, value in known.values.items() if key[0] not in changed}
        self._checked = {name: dict(found) for name, found in known.checked.items() if name not in changed}

    def checked_base(self, name: str, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        """Return a value derived from a register, made once while the register keeps its value."""
        found = self._checked.setdefault(name, {})
        value = found.get(key)
        if value is None:
            value = found[key] = make()
        return value

    def prepared(self, key: str, make: Callable[[ir.IRBuilder], Value]) -> Value:
        """Return a value computed once, at the start of the function."""
        value = self._once.get(key)
        if value is None:
            value = self._once[key] = make(self.preamble)
        return value

    # ---- registers ---------------------------------------------------------------------------------------------------

    def shape(self, operand: Operand) -> Shape:
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

    def home(self, name: str) -> list[Value]:
        """Return the allocas of a register that outlives a block: one, or one per part."""
        slots = self._storage.get(name)
        if slots is None:
            shape, scalar = self.unit.info.shapes[name], self.register_type(name)
            type_ = ir.VectorType(scalar, self.lanes) if shape.varying else scalar
            count = self.parts if shape.varying or shape.per_part else 1
            slots = self._storage[name] = [self.preamble.alloca(type_) for _ in range(count)]
        return slots

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
                value = self.builder.load(self.home(name)[key[1]])
            else:  # read before anything was written: any value will do
                scalar = self.register_type(name)
                value = ir.Constant(ir.VectorType(scalar, self.lanes) if shape.varying else scalar, None)
            self._values[key] = value
        return value

    def base(self, name: str, part: int) -> Value:
        """Return the scalar base of a register that does not vary: of the warp, or of ``part``."""
        return self._read(name, part)

    def base_at(self, name: str, part: int) -> Value:
        """Return the value in the first lane of ``part``."""
        shape = self.unit.info.shapes[name]
        value = self._read(name, part)
        return self._offset(value, shape, part)

    def _offset(self, value: Value, shape: Shape, part: int) -> Value:
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
            value = self._values[key] = self.spread(self.base_at(name, part), shape.step)
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
            return ops.read_as(self.builder, self.special_base(operand.name, part), type_)
        return self.literal(operand, type_)

    def scalar_operand_for(self, operand: Operand, type_: str, part: int, parts: int) -> Value:
        """Return an operand's base for a result kept in ``parts`` parts: of ``part`` when there are several."""
        return self.first_lane_operand(operand, type_, part) if parts > 1 else self.scalar_operand(operand, type_, 0)

    def first_lane_operand(self, operand: Operand, type_: str, part: int) -> Value:
        """Return an operand's value in the first lane of ``part``, for operands that do not vary."""
        value = self.scalar_operand(operand, type_, part)
        return self._offset(value, self.shape(operand), part)

    def vector_operand(self, operand: Operand, type_: str, part: int) -> Value:
        """Return an operand as a vector of one part, of PTX type ``type_``."""
        if isinstance(operand, Negated):
            return self.builder.not_(self.vector_operand(operand.register, "pred", part))
        if isinstance(operand, Register):
            if operand.name in self.unit.program.registers:
                return ops.read_as(self.builder, self.vector(operand.name, part), type_)
            return ops.read_as(self.builder, self.special_vector(operand.name, part), type_)
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
            return self.builder.add(self.launch(Launch.PARAMS, I64), i64(slot.offset + symbol.offset))
        index = self.unit.symbols.get(symbol.name)
        if index is None:
            return i64(0)
        table = self.launch(Launch.SYMBOLS, POINTER)
        return self.builder.add(t.load(self.builder, table, index * 8, I64), i64(symbol.offset))

    # ---- special registers (PTX ISA section 10) ----------------------------------------------------------------------

    def special_base(self, name: str, part: int) -> Value:
        """Return the base of a special register that does not vary."""
        b = self.builder
        if name in _THREAD_FIELDS:
            offset = _THREAD_FIELDS[name]
            shape = self.shape(Register(name))
            lane = part * self.lanes if shape.per_part else 0
            return self.once(f"{name}+{lane}", "context", offset + 4 * lane, I32)
        if name == "%laneid":
            return i32(0)
        if name in _FIELDS:
            record, offset = _FIELDS[name]
            return self.once(name, record, offset, I32)
        if name.startswith(("%clock", "%globaltimer")):
            now = self._tick()
            return b.lshr(now, i64(32)) if name.endswith("_hi") else now
        if name == "%gridid":
            return i64(1)
        if name.startswith("%lanemask"):
            return i32(0)
        return i32(_FIXED.get(name, 0))

    def special_vector(self, name: str, part: int) -> Value:
        """Return a special register as a vector of one part."""
        if name in _THREAD_FIELDS and self.shape(Register(name)).varying:
            offset = _THREAD_FIELDS[name] + 4 * part * self.lanes
            return self.once(f"{name}/{part}", "context", offset, ir.VectorType(I32, self.lanes))
        if name.startswith("%lanemask_"):
            lanes = range(part * self.lanes, (part + 1) * self.lanes)
            return ir.Constant(ir.VectorType(I32, self.lanes), [_LANE_MASKS[name[-2:]](lane) for lane in lanes])
        shape = self.shape(Register(name))
        return self.spread(self._offset(self.special_base(name, part), shape, part), shape.step)

    def _tick(self) -> Value:
        """Advance the launch's clock: time is only required to go on."""
        b = self.builder
        pointer = t.at(b, t.load(b, self.context, Warp.LAUNCH, POINTER), Launch.CLOCK)
        now = b.add(b.load(pointer, typ=I64), i64(16))
        b.store(now, pointer)
        return now

    # ---- results -----------------------------------------------------------------------------------------------------

    def put_base(self, name: str, part: int, value: Value, type_: str) -> None:
        """Write the base of a register that does not vary."""
        if name == "_":
            return
        shape = self.unit.info.shapes[name]
        value = ops.write_as(self.builder, value, type_, self.register_type(name))
        index = part if shape.per_part else 0
        self._checked.pop(name, None)
        if name in self._homes:
            self.builder.store(value, self.home(name)[index])
        for other in range(self.parts):
            self._values.pop((name, other, True), None)
        self._values[name, index, False] = value

    def put_vector(self, name: str, part: int, value: Value, type_: str) -> None:
        """Write one part of a varying register, for the active lanes only where others still need theirs."""
        if name == "_":
            return
        value = ops.write_as(self.builder, value, type_, self.register_type(name))
        if name in self._homes:
            mask = self.active(part) if self.divergent else None if self._guard is None else self._guard[part]
            if mask is not None:
                value = self.builder.select(mask, value, self._read(name, part))
            self.builder.store(value, self.home(name)[part])
        self._values[name, part, True] = value

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


def register_type(ptx: str) -> ir.Type:
    """Return the LLVM type that one lane of a register of PTX type ``ptx`` is kept in: half floats as their bits."""
    if ptx in ("f32", "f64"):
        return ops.llvm_type(ptx)
    if ptx == "pred":
        return I1
    return ir.IntType({"f16x2": 32, "bf16x2": 32, "tf32": 32}.get(ptx) or int(ptx.lstrip("busfe")))


def literal(operand: Immediate, type_: str) -> Value:
    """Return an immediate operand as a constant of PTX type ``type_`` (PTX ISA section 4.5)."""
    target = ops.llvm_type(type_)
    bits = operand.bits
    if operand.kind == "f32" and type_ == "f64":
        bits = _repacked(bits, "<I", "<f", "<d", "<Q")
    elif operand.kind == "f64" and type_ == "f32":
        bits = _repacked(bits, "<Q", "<d", "<f", "<I")
    if isinstance(target, ir.IntType):
        return ir.Constant(target, bits & ((1 << target.width) - 1))
    width = {"half": 16, "float": 32, "double": 64}[str(target)]
    return ir.Constant(ir.IntType(width), bits & ((1 << width) - 1)).bitcast(target)


def _repacked(bits: int, take: str, as_: str, to: str, give: str) -> int:
    number = struct.unpack(as_, struct.pack(take, bits))[0]
    try:
        packed = struct.pack(to, number)
    except OverflowError:
        packed = struct.pack(to, float("inf") if number > 0 else float("-inf"))
    return int(struct.unpack(give, packed)[0])


def _integer(type_: ir.IntType, value: int) -> Value:
    return ir.Constant(type_, value & ((1 << type_.width) - 1))


def saved_registers(program: Program, live: Liveness) -> tuple[str, ...]:
    """Return the registers that need a place of their own: seen in several blocks, alive at a start, or guarded."""
    where: dict[str, int] = {}
    homes: set[str] = set()
    for number, block in enumerate(program.blocks):
        for instruction in block.code:
            names = (*written(instruction), *read(instruction))
            if instruction.guard is not None:
                homes.update(written(instruction))
            for name in names:
                if where.setdefault(name, number) != number:
                    homes.add(name)
        for name in read_at_end(block):
            if where.setdefault(name, number) != number:
                homes.add(name)
        homes.update(live.registers(live.live_in[number]))
    return tuple(sorted(name for name in homes if name in program.registers))


def _used(program: Program) -> frozenset[str]:
    """Return the registers that anything reads."""
    names: set[str] = set()
    for block in program.blocks:
        names.update(read_at_end(block))
        for instruction in block.code:
            names.update(read(instruction))
    return frozenset(names)


_THREAD_FIELDS = {"%tid.x": Warp.TID_X, "%tid.y": Warp.TID_Y, "%tid.z": Warp.TID_Z}

_FIELDS = {
    "%ctaid.x": ("block", Block.X),
    "%ctaid.y": ("block", Block.Y),
    "%ctaid.z": ("block", Block.Z),
    "%ntid.x": ("launch", Launch.NTID_X),
    "%ntid.y": ("launch", Launch.NTID_Y),
    "%ntid.z": ("launch", Launch.NTID_Z),
    "%nctaid.x": ("launch", Launch.GRID_X),
    "%nctaid.y": ("launch", Launch.GRID_Y),
    "%nctaid.z": ("launch", Launch.GRID_Z),
    "%warpid": ("context", Warp.WARP_ID),
    "%nwarpid": ("launch", Launch.WARP_COUNT),
    "%dynamic_smem_size": ("launch", Launch.DYNAMIC_SHARED),
    "%total_smem_size": ("launch", Launch.TOTAL_SHARED),
}

_FIXED = {"%nsmid": 1, "%smid": 0, "%nctaid.w": 1}

_LANE_MASKS = {
    "eq": lambda lane: 1 << lane,
    "le": lambda lane: (2 << lane) - 1,
    "lt": lambda lane: (1 << lane) - 1,
    "ge": lambda lane: 0xFFFFFFFF & ~((1 << lane) - 1),
    "gt": lambda lane: 0xFFFFFFFF & ~((2 << lane) - 1),
}

SPECIAL_REGISTERS = frozenset(
    {*_THREAD_FIELDS, *_FIELDS, *_FIXED, "%laneid", "%gridid", "%clock", "%clock_hi", "%clock64", "%globaltimer",
     "%globaltimer_lo", "%globaltimer_hi", "%tid.w", "%ntid.w", "%ctaid.w"}
    | {f"%lanemask_{kind}" for kind in _LANE_MASKS}
)  # fmt: skip
"""The special registers whose value is known; reading another one cannot be run."""

__all__ = ["SPECIAL_REGISTERS", "VARYING", "WARP", "Emitter", "Unit", "literal", "register_type", "saved_registers"]
