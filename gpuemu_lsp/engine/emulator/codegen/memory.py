"""Loads and stores: one vector access where lanes are neighbours, one scalar access where they agree, else gathers.

Each has a short check of its own (inside the window? aligned? shadow bytes right?); whatever fails it is done lane by
lane by the runtime, which reports and contains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen import ir_tools as t
from gpuemu_lsp.engine.emulator.codegen.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.ir_tools import I1, I32, I64, POINTER, Value, i32, i64
from gpuemu_lsp.engine.emulator.codegen.linked import RUNTIME
from gpuemu_lsp.engine.emulator.codegen.runtime import SPACE_SHIFT, SPACES, STORE_FLAG
from gpuemu_lsp.engine.emulator.layout import NEAR, NOWHERE, SHADOW_DISTANCE, SLOT, Block, Launch, Shadow, Warp
from gpuemu_lsp.engine.emulator.opcodes import access_type, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.operands import elements
from gpuemu_lsp.engine.emulator.shapes import Shape
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol

_READABLE = Shadow.ADDRESSABLE | Shadow.INITIALISED
_STORE_MASK = Shadow.ADDRESSABLE | Shadow.READ_ONLY | Shadow.WATCHED
_MARK = Shadow.ADDRESSABLE | Shadow.INITIALISED | Shadow.WRITTEN

KNOWN_MODIFIERS = frozenset(
    {"global", "shared", "shared::cta", "local", "const", "param", "param::entry", "param::func", "v2", "v4", "v8",
     "nc", "ca", "cg", "cs", "cv", "lu", "wb", "wt", "volatile", "weak", "relaxed", "acquire", "release", "cta", "gpu",
     "sys",
     "cluster", "acq_rel", "mmio", "unified", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
     "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "L2::evict_first", "L2::evict_last",
     "L2::evict_normal"}
)  # fmt: skip
"""What a load or store may carry. All accesses are strong here, and cache hints mean nothing."""

TYPES = frozenset(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)) | {
    "f32",
    "f64",
    "f16",
    "f16x2",
    "bf16",
}


@dataclass(frozen=True, slots=True)
class _Access:
    """One access as written: what it moves, and where its addresses come from."""

    instruction: Instruction
    address: Address
    items: tuple[Operand, ...]
    type: str
    size: int
    space: str
    shape: Shape
    store: bool

    @property
    def total(self) -> int:
        """Bytes one lane moves."""
        return self.size * len(self.items)


def supported(instruction: Instruction) -> bool:
    """Return whether a load or store can be run."""
    *modifiers, type_ = instruction.modifiers
    if type_ not in TYPES or not set(modifiers) <= KNOWN_MODIFIERS:
        return False
    address = instruction.operands[0 if instruction.opcode == "st" else 1]
    return isinstance(address, Address) and len(instruction.operands) == 2


def emit_access(e: Emitter, instruction: Instruction) -> None:
    """Write a ``ld`` or ``st`` (PTX ISA sections 9.7.9.8 to 9.7.9.12)."""
    access = _describe(e, instruction)
    e.settle_masks()
    if access.space == "param" and isinstance(access.address.base, Symbol):
        _load_param(e, access)
    elif access.space == "local":
        _checked(e, access, _Scattered(e, access))
    elif access.shape.flat:
        _checked(e, access, _Single(e, access))
    elif access.shape.step == access.total and not access.shape.varying:
        _checked(e, access, _Row(e, access))
    elif access.store and access.size < 4:
        _lane_by_lane(e, access, range(e.parts))
    else:
        _checked(e, access, _Scattered(e, access))


def _describe(e: Emitter, instruction: Instruction) -> _Access:
    store = instruction.opcode == "st"
    address, value = instruction.operands if store else instruction.operands[::-1]
    assert isinstance(address, Address)
    type_ = access_type(instruction)
    base = address.base
    shape = e.shape(base)
    return _Access(
        instruction, address, elements(value), type_, type_bytes(type_), memory_space(instruction), shape, store
    )


def _load_param(e: Emitter, access: _Access) -> None:
    """Load a kernel parameter: the same for all lanes, and not subject to faults."""
    base = access.address.base
    assert isinstance(base, Symbol)
    offset = e.unit.program.params[base.name].offset + base.offset + access.address.offset
    params = e.launch(Launch.PARAMS, POINTER)
    for index, item in enumerate(access.items):
        place = offset + index * access.size
        bits = ir.IntType(access.size * 8)
        value = t.load(e.builder, params, place, bits)
        for part in e.result_parts(_name(item)):
            e.put(_name(item), part, value, access.type)


def _name(operand: Operand) -> str:
    return operand.name if isinstance(operand, Register) else "_"


# ---- addresses -------------------------------------------------------------------------------------------------------


def address_scalar(e: Emitter, address: Address, part: int, *, first_lane: bool) -> Value:
    """Return the base of an address in its window as an i64; 32-bit addresses are zero-extended."""
    base = address.base
    if isinstance(base, Register):
        wide = e.register_type(base.name) == I64 if base.name in e.unit.program.registers else False
        type_ = "b64" if wide else "b32"
        value = (e.first_lane_operand if first_lane else e.scalar_operand)(base, type_, part)
        value = value if wide else e.builder.zext(value, I64)
    else:
        value = _fixed(e, base)
    return e.builder.add(value, i64(address.offset)) if address.offset else value


def _fixed(e: Emitter, base: Symbol | Immediate) -> Value:
    return e.symbol(base) if isinstance(base, Symbol) else i64(base.bits)


def address_vector(e: Emitter, address: Address, part: int) -> Value:
    """Return the addresses of one part in their window, as i64."""
    base = address.base
    vector = ir.VectorType(I64, e.lanes)
    if isinstance(base, Register):
        wide = e.register_type(base.name) == I64
        value = e.vector_operand(base, "b64" if wide else "b32", part)
        value = value if wide else e.builder.zext(value, vector)
    else:
        value = t.splat(e.builder, _fixed(e, base), e.lanes)
    if address.offset:
        value = e.builder.add(value, t.splat(e.builder, i64(address.offset), e.lanes))
    return value


def host_vector(e: Emitter, address: Address, space: str, part: int) -> Value:
    """Return the host addresses of one part: the window's place added (PTX ISA section 6.4.1.1)."""
    value = address_vector(e, address, part)
    if space == "shared":
        return e.builder.add(value, t.splat(e.builder, shared_window(e), e.lanes))
    if space == "local":
        return e.builder.add(value, local_frames(e, part))
    return value


def shared_window(e: Emitter) -> Value:
    """Return the address of the block's shared memory."""
    return e.once("shared", "block", Block.SHARED, I64)


def local_frames(e: Emitter, part: int) -> Value:
    """Return the address of each lane's local memory."""
    base = e.once("local", "context", Warp.LOCAL, I64)
    frame = max(e.unit.program.local_bytes, 1)
    return e.spread(e.builder.add(base, i64(part * e.lanes * frame)), frame)


def _window(e: Emitter, space: str) -> tuple[Value, Value]:
    """Return (lowest address, size) of what an access may touch."""
    if space == "shared":
        return shared_window(e), e.launch(Launch.SHARED_SIZE, I64)
    return e.launch(Launch.ARENA, I64), e.launch(Launch.ARENA_SIZE, I64)


def _inside(e: Emitter, offset: Value, space: str, total: int, vector: bool) -> Value:
    """Return whether offsets lie in (or near, where nothing is addressable) a window and are aligned.

    Rotating the low bits up turns a misaligned offset into a huge one: one comparison says both.
    """
    b = e.builder
    bits = total.bit_length() - 1
    size = _window(e, space)[1]
    limit = e.prepared(f"limit/{space}/{bits}", lambda pre: pre.lshr(pre.add(size, i64(2 * NEAR)), i64(bits)))

    def make(value: Value) -> Value:
        return t.splat(b, value, e.lanes) if vector else value

    near = b.add(offset, make(i64(NEAR)))
    if bits:
        near = t.unary_intrinsic(b, "fshr", near, near, make(i64(bits)))
    return b.icmp_unsigned("<", near, make(limit))


def _safe_host(e: Emitter, access: _Access, part: int) -> tuple[Value, int]:
    """Return (base, byte offset) of an address that may be looked at: one where nothing is addressable if it may not.

    Accesses near each other on one base share the check; their shadow then decides.
    """
    base, space = access.address.base, access.space
    far = access.address.offset & -NEAR
    far += (access.address.offset - far) % access.total  # what is left over must not hide a misalignment
    rest = access.address.offset - far

    def make() -> Value:
        b = e.builder
        low, _ = _window(e, space)
        window = address_scalar(e, Address(base, far), part, first_lane=False)
        offset = window if space == "shared" else b.sub(window, low)
        host = b.add(window, low) if space == "shared" else window
        nowhere = e.prepared("nowhere", lambda pre: pre.add(e.launch(Launch.ARENA, I64), i64(NOWHERE)))
        return b.inttoptr(b.select(_inside(e, offset, space, access.total, vector=False), host, nowhere), POINTER)

    name = base.name if isinstance(base, Register) else ""
    if name not in e.unit.program.registers:
        return make(), rest
    return e.checked_base(name, (part if access.shape.per_part else 0, far, space, access.total), make), rest


def lane_bits(e: Emitter, parts: Sequence[int]) -> int:
    """Return the lanes of some parts as bits."""
    return sum(((1 << e.lanes) - 1) << (part * e.lanes) for part in parts)


# ---- forms of access -------------------------------------------------------------------------------------------------


class _Form:
    """How one access is done when its checks pass.

    ``allowed`` looks at the shadow and gives an i1 that is true when all is well; ``run`` does the access and returns,
    for a load, one value per (item, part).
    """

    def __init__(self, e: Emitter, access: _Access, parts: Sequence[int]) -> None:
        self.e, self.access, self.parts = e, access, parts

    def allowed(self) -> Value:
        raise AssertionError

    def run(self) -> list[list[Value]]:
        raise AssertionError

    def integer(self) -> ir.IntType:
        return ir.IntType(self.access.size * 8)

    def pattern(self, byte: int, size: int) -> int:
        return int.from_bytes(bytes([byte]) * size, "little")

    def refused(self, shadow: Value) -> Value:
        """Return i1 (or a vector of them): whether shadow bits, loaded as integers, forbid the access."""
        b = self.e.builder
        vector = isinstance(shadow.type, ir.VectorType)
        scalar = shadow.type.element if vector else shadow.type

        def make(value: Value) -> Value:
            return t.splat(b, value, self.e.lanes) if vector else value

        size = scalar.width // 8
        if self.access.store:
            mask, wanted = self.pattern(_STORE_MASK, size), self.pattern(Shadow.ADDRESSABLE, size)
        else:
            mask = wanted = self.pattern(_READABLE, size)
        seen = b.and_(shadow, make(ir.Constant(scalar, mask)))
        return b.icmp_unsigned("!=", seen, make(ir.Constant(scalar, wanted)))


class _Single(_Form):
    """All lanes (or all lanes of each part) use one address."""

    def __init__(self, e: Emitter, access: _Access) -> None:
        super().__init__(e, access, range(e.parts))
        self.hosts = [_safe_host(e, access, part) for part in range(e.parts if access.shape.per_part else 1)]

    def allowed(self) -> Value:
        b = self.e.builder
        type_ = ir.IntType(self.access.total * 8)
        result = None
        for part, (host, offset) in enumerate(self.hosts):
            bad = self.refused(t.load(b, host, offset + SHADOW_DISTANCE, type_, align=1))
            if self.access.store and (len(self.hosts) > 1 or self.e.guard_given):
                # Where no lane is active nothing must be stored: such a part, rare, goes the slow way.
                bad = b.or_(bad, b.icmp_unsigned("==", self._lanes(part), i32(0)))
            result = bad if result is None else b.or_(result, bad)
        return b.not_(result)

    def _lanes(self, part: int) -> Value:
        """Return the active lanes that use one of the addresses."""
        lanes = self.e.active32()
        return self.e.builder.and_(lanes, i32(lane_bits(self.e, [part]))) if len(self.hosts) > 1 else lanes

    def run(self) -> list[list[Value]]:
        b, access = self.e.builder, self.access
        columns: list[list[Value]] = [[] for _ in access.items]
        for part, (host, offset) in enumerate(self.hosts):
            for index, item in enumerate(access.items):
                place = offset + index * access.size
                if access.store:
                    t.store(b, self._last(item, part), host, place, align=1)
                else:
                    columns[index].append(t.load(b, host, place, self.integer(), align=1))
            if access.store:
                mark = ir.Constant(ir.IntType(access.total * 8), self.pattern(_MARK, access.total))
                t.store(b, mark, host, offset + SHADOW_DISTANCE, align=1)
        return [] if access.store else columns

    def _last(self, item: Operand, part: int) -> Value:
        """Return the value of the highest active lane: of lanes that store to one place, any may win."""
        e, b = self.e, self.e.builder
        bits = f"b{self.access.size * 8}"
        shape = e.shape(item)
        if shape.flat and (not shape.per_part or len(self.hosts) > 1):
            return e.scalar_operand(item, bits, part)
        for other in [part] if len(self.hosts) > 1 else self.parts:
            value = e.vector_operand(item, bits, other)
            t.store(b, value, e.context, Warp.VALUE + other * e.lanes * self.access.size, align=1)
        highest = b.sub(i32(31), t.intrinsic(b, "llvm.ctlz.i32", I32, [self._lanes(part), ir.Constant(I1, 0)]))
        offset = b.add(b.mul(b.zext(highest, I64), i64(self.access.size)), i64(Warp.VALUE))
        return t.load(b, e.context, offset, self.integer(), align=1)


class _Row(_Form):
    """Neighbouring lanes use neighbouring addresses."""

    def __init__(self, e: Emitter, access: _Access) -> None:
        super().__init__(e, access, range(e.parts))
        count = e.parts if access.shape.per_part else 1
        self.hosts = [_safe_host(e, access, part) for part in range(count)]
        self.whole = len(access.items) > 1 or access.size < 4

    def _place(self, part: int) -> tuple[Value, int]:
        """Return base and byte offset of a part."""
        if self.access.shape.per_part:
            return self.hosts[part]
        base, offset = self.hosts[0]
        return base, offset + part * self.e.lanes * self.access.total

    def allowed(self) -> Value:
        e, b = self.e, self.e.builder
        refused = []
        for part in self.parts:
            base, offset = self._place(part)
            shadow = t.load(
                b, base, offset + SHADOW_DISTANCE, ir.VectorType(ir.IntType(self.access.total * 8), e.lanes), 1
            )
            bad = self.refused(shadow)
            mask = e.active(part)
            refused.append(bad if mask is None else b.and_(bad, mask))
        result = b.not_(e.any(refused))
        if self.access.store and self.whole and e.active(0) is not None:
            # Elements narrower than a lane of the vector unit, or several per lane, have no cheap masked store.
            result = b.and_(result, b.icmp_unsigned("==", e.active32(), i32(-1)))
        return result

    def run(self) -> list[list[Value]]:
        if self.access.store:
            for part in self.parts:
                self._store(part)
            return []
        rows = [self._load(part) for part in self.parts]
        return [list(column) for column in zip(*rows, strict=True)]

    def _load(self, part: int) -> list[Value]:
        e = self.e
        base, offset = self._place(part)
        count = len(self.access.items)
        row = ir.VectorType(self.integer(), e.lanes)
        width = e.lanes * self.access.size
        pieces = [t.load(e.builder, base, offset + i * width, row, align=1) for i in range(count)]
        return _columns(e, pieces)

    def _store(self, part: int) -> None:
        e, b, access = self.e, self.e.builder, self.access
        base, offset = self._place(part)
        bits = f"b{access.size * 8}"
        values = [e.vector_operand(item, bits, part) for item in access.items]
        mask = None if self.whole else e.active(part)
        width = e.lanes * access.size
        byte = ir.VectorType(self.integer(), e.lanes)
        mark = t.splat(b, ir.Constant(self.integer(), self.pattern(_MARK, access.size)), e.lanes)
        for i, value in enumerate(_rows(e, values)):
            place = t.at(b, base, offset + i * width)
            shadow = t.at(b, base, offset + i * width + SHADOW_DISTANCE)
            if mask is None:
                b.store(value, place, align=1)
                b.store(mark, shadow, align=1)
            else:
                name = f"llvm.masked.store.{t.mangled(byte)}.p0"
                t.intrinsic(b, name, t.VOID, [value, place, i32(1), mask])
                t.intrinsic(b, name, t.VOID, [mark, shadow, i32(1), mask])


def _columns(e: Emitter, pieces: list[Value]) -> list[Value]:
    """Split rows of interleaved elements (x0 y0 x1 y1 ...) into one vector per element."""
    if len(pieces) == 1:
        return pieces
    half = [_columns_of_two(e, pieces[i], pieces[i + 1], len(pieces)) for i in range(0, len(pieces), 2)]
    if len(pieces) == 2:
        return list(half[0])
    lanes = e.lanes
    low, high = range(lanes // 2), range(lanes // 2, lanes)
    result = []
    for group in range(2):
        for part in (low, high):
            index = [*part, *(lane + lanes for lane in part)]
            result.append(_shuffle(e, half[0][group], half[1][group], index))
    return result


def _columns_of_two(e: Emitter, first: Value, second: Value, count: int) -> tuple[Value, Value]:
    lanes = e.lanes
    if count == 2:
        even = range(0, 2 * lanes, 2)
        return _shuffle(e, first, second, even), _shuffle(e, first, second, [i + 1 for i in even])
    # Two rows hold lanes/2 quadruples: gather elements 0 and 1, and 2 and 3, of each.
    quads = range(0, 2 * lanes, 4)
    index = [[i + k for i in quads] for k in range(4)]
    return _shuffle(e, first, second, index[0] + index[1]), _shuffle(e, first, second, index[2] + index[3])


def _rows(e: Emitter, values: list[Value]) -> list[Value]:
    """Interleave one vector per element into rows: the opposite of :func:`_columns`."""
    count, lanes = len(values), e.lanes
    if count == 1:
        return values
    if count == 2:
        order = [k for lane in range(lanes) for k in (lane, lane + lanes)]
        return [_shuffle(e, values[0], values[1], order[:lanes]), _shuffle(e, values[0], values[1], order[lanes:])]
    pairs = [_rows(e, values[:2]), _rows(e, values[2:])]
    result = []
    for row in range(2):
        first, second = pairs[0][row], pairs[1][row]
        order = [k for lane in range(0, lanes, 2) for k in (lane, lane + 1, lane + lanes, lane + lanes + 1)]
        result += [_shuffle(e, first, second, order[:lanes]), _shuffle(e, first, second, order[lanes:])]
    return result


def _shuffle(e: Emitter, first: Value, second: Value, index: Sequence[int]) -> Value:
    return e.builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, len(index)), list(index)))


class _Scattered(_Form):
    """Every lane has its own address: gathers and scatters relative to the start of the arena."""

    def __init__(self, e: Emitter, access: _Access) -> None:
        super().__init__(e, access, range(e.parts))
        b = e.builder
        self.arena = e.launch(Launch.ARENA, I64)
        self.reachable: list[Value] = []
        self.offsets: list[Value] = []
        low, _ = _window(e, access.space)
        for part in self.parts:
            window = address_vector(e, access.address, part)
            if access.space == "local":
                # Frames lie side by side: nothing unaddressable is between them, so the limit is exact.
                inside = _local_inside(e, window, access.total)
                host = b.add(window, local_frames(e, part))
            elif access.space == "shared":
                inside = _inside(e, window, access.space, access.total, vector=True)
                host = b.add(window, t.splat(b, low, e.lanes))
            else:
                host = window
                offset = b.sub(window, t.splat(b, low, e.lanes))
                inside = _inside(e, offset, access.space, access.total, vector=True)
            mask = e.active(part)
            self.reachable.append(inside if mask is None else b.and_(inside, mask))
            offset = b.trunc(b.sub(host, t.splat(b, self.arena, e.lanes)), ir.VectorType(I32, e.lanes))
            self.offsets.append(offset)

    def _pointers(self, part: int, extra: int) -> Value:
        b = self.e.builder
        base = t.at(b, self.arena, extra)
        index = b.sext(self.offsets[part], ir.VectorType(I64, self.e.lanes))
        return t.pointers(b, base, index)

    def _gather(self, part: int, extra: int, type_: ir.IntType) -> Value:
        e, b = self.e, self.e.builder
        vector = ir.VectorType(type_, e.lanes)
        mask = self.reachable[part]
        if type_.width >= 32:
            pointers = self._pointers(part, extra)
            name = f"llvm.masked.gather.{t.mangled(vector)}.v{e.lanes}p0"
            return t.intrinsic(b, name, vector, [pointers, i32(1), mask, ir.Constant(vector, None)])
        # There is no gather of less than 32 bits: take the aligned word around it, which lies in the arena too.
        words = ir.VectorType(I32, e.lanes)
        aligned = b.and_(self.offsets[part], t.splat(b, i32(-4), e.lanes))
        index = b.sext(aligned, ir.VectorType(I64, e.lanes))
        pointers = t.pointers(b, t.at(b, self.arena, extra & ~3), index)
        name = f"llvm.masked.gather.{t.mangled(words)}.v{e.lanes}p0"
        word = t.intrinsic(b, name, words, [pointers, i32(1), mask, ir.Constant(words, None)])
        shift = b.shl(b.and_(self.offsets[part], t.splat(b, i32(3), e.lanes)), t.splat(b, i32(3), e.lanes))
        return b.trunc(b.lshr(word, shift), vector)

    def _elements(self) -> list[tuple[int, ir.IntType]]:
        """Return (byte offset, type) of the pieces one lane's bytes are looked at in."""
        total = self.access.total
        size = min(total, 8)
        return [(offset, ir.IntType(size * 8)) for offset in range(0, total, size)]

    def allowed(self) -> Value:
        e, b = self.e, self.e.builder
        refused = []
        for part in self.parts:
            mask = e.active(part)
            for offset, type_ in self._elements():
                # A lane that cannot be reached is not gathered: its shadow is zero, and that is refused.
                bad = self.refused(self._gather(part, SHADOW_DISTANCE + offset, type_))
                refused.append(bad if mask is None else b.and_(bad, mask))
        return b.not_(e.any(refused))

    def run(self) -> list[list[Value]]:
        access = self.access
        if access.store:
            for part in self.parts:
                self._scatter(part)
            return []
        if access.size < 4 and len(access.items) > 1:
            return self._split()
        return [
            [self._gather(part, index * access.size, self.integer()) for part in self.parts]
            for index in range(len(access.items))
        ]

    def _split(self) -> list[list[Value]]:
        """Load several narrow elements as wider words, and take these apart."""
        e, b, access = self.e, self.e.builder, self.access
        narrow = ir.VectorType(self.integer(), e.lanes)
        columns: list[list[Value]] = [[] for _ in access.items]
        for part in self.parts:
            for offset, type_ in self._elements():
                word = self._gather(part, offset, type_)
                for k in range(type_.width // (access.size * 8)):
                    amount = t.splat(b, ir.Constant(type_, k * access.size * 8), e.lanes)
                    value = b.trunc(b.lshr(word, amount), narrow) if type_.width > access.size * 8 else word
                    columns[offset // access.size + k].append(value)
        return columns

    def _scatter(self, part: int) -> None:
        e, b, access = self.e, self.e.builder, self.access
        mask = e.active(part)
        if mask is None:
            mask = t.splat(b, ir.Constant(I1, 1), e.lanes)
        mark = t.splat(b, ir.Constant(self.integer(), self.pattern(_MARK, access.size)), e.lanes)
        for index, item in enumerate(access.items):
            value = e.vector_operand(item, f"b{access.size * 8}", part)
            name = f"llvm.masked.scatter.{t.mangled(value.type)}.v{e.lanes}p0"
            offset = index * access.size
            t.intrinsic(b, name, t.VOID, [value, self._pointers(part, offset), i32(1), mask])
            t.intrinsic(b, name, t.VOID, [mark, self._pointers(part, offset + SHADOW_DISTANCE), i32(1), mask])


def _local_inside(e: Emitter, window: Value, total: int) -> Value:
    b = e.builder
    frame = max(e.unit.program.local_bytes, 1)
    bits = total.bit_length() - 1
    value = window
    if bits:
        value = t.unary_intrinsic(b, "fshr", window, window, t.splat(b, i64(bits), e.lanes))
    return b.icmp_unsigned("<", value, t.splat(b, i64(frame >> bits), e.lanes))


# ---- the two ways ----------------------------------------------------------------------------------------------------


def _checked(e: Emitter, access: _Access, form: _Form) -> None:
    """Run ``form`` if its checks pass, else go lane by lane."""
    b = e.builder
    slow, fast, end = e.append_block("slow"), e.append_block(), e.append_block()
    known = e.snapshot()
    allowed = form.allowed()
    b.cbranch(allowed, fast, slow).set_weights([2000, 1])
    b.position_at_end(fast)
    quick = form.run()
    quick_end = b.block
    b.branch(end)
    e.restore(known)
    b.position_at_end(slow)
    careful = _call(e, access, form.parts)
    slow_end = b.block
    b.branch(end)
    e.restore(known)
    b.position_at_end(end)
    if access.store:
        return
    loaded: list[tuple[Operand, Sequence[int], Value]] = []
    for item, fast_values, slow_values in zip(access.items, quick, careful, strict=True):
        for place, (one, other) in enumerate(zip(fast_values, slow_values, strict=True)):
            phi = b.phi(one.type)
            phi.add_incoming(one, quick_end)
            phi.add_incoming(other, slow_end)
            loaded.append((item, form.parts if len(fast_values) == 1 else [form.parts[place]], phi))
    for item, parts, value in loaded:
        _deliver(e, access, item, parts, value)


def _deliver(e: Emitter, access: _Access, item: Operand, parts: Sequence[int], value: Value) -> None:
    name = _name(item)
    if name == "_":
        return
    shape = e.unit.info.shapes[name]
    if shape.varying or shape.per_part:
        for part in parts:
            e.put(name, part, value, access.type)
    else:
        e.put(name, 0, value, access.type)


def _lane_by_lane(e: Emitter, access: _Access, parts: Sequence[int]) -> None:
    for item, column in zip(access.items, _call(e, access, parts), strict=False):
        for part, value in zip(parts, column, strict=True):
            _deliver(e, access, item, [part], value)


def _call(e: Emitter, access: _Access, parts: Sequence[int]) -> list[list[Value]]:
    """Have the runtime do the access; return one value per (item, part), scalars where all lanes use one address."""
    b = e.builder
    known = e.snapshot()
    lanes = e.active32()
    _put_addresses(e, access, parts)
    if access.store:
        for index, item in enumerate(access.items):
            for part in parts:
                value = e.vector_operand(item, f"b{access.size * 8}", part)
                place = Warp.VALUE + index * SLOT + part * e.lanes * access.size
                t.store(b, value, e.context, place, align=1)
    flags = SPACES[access.space] << SPACE_SHIFT | (STORE_FLAG if access.store else 0)
    arguments = [
        e.context,
        i32(e.site),
        lanes,
        i32(access.size),
        i32(len(access.items)),
        i32(_unused(e, access)),
        i32(flags),
    ]
    t.call_address(b, RUNTIME.address("store" if access.store else "load"), t.VOID, arguments)
    e.restore(known)
    if access.store:
        return []
    if access.shape.flat and access.space != "local":
        return _first_lanes(e, access, lanes)
    row = ir.VectorType(ir.IntType(access.size * 8), e.lanes)
    return [
        [t.load(b, e.context, Warp.VALUE + index * SLOT + part * e.lanes * access.size, row, align=1) for part in parts]
        for index in range(len(access.items))
    ]


def _first_lanes(e: Emitter, access: _Access, lanes: Value) -> list[list[Value]]:
    """Return, of what the runtime loaded, one scalar per address: that of the lowest active lane."""
    b = e.builder
    columns: list[list[Value]] = [[] for _ in access.items]
    for part in range(e.parts if access.shape.per_part else 1):
        mine = b.and_(lanes, i32(lane_bits(e, [part]))) if access.shape.per_part else lanes
        lane = b.zext(t.intrinsic(b, "llvm.cttz.i32", I32, [mine, ir.Constant(I1, 0)]), I64)
        place = b.add(b.mul(b.and_(lane, i64(31)), i64(access.size)), i64(Warp.VALUE))
        for index, column in enumerate(columns):
            integer = ir.IntType(access.size * 8)
            column.append(t.load(b, e.context, b.add(place, i64(index * SLOT)), integer, align=1))
    return columns


def _put_addresses(e: Emitter, access: _Access, parts: Sequence[int]) -> None:
    """Write the host address of every lane to the scratch space, out of line where a base and a step say it all."""
    b = e.builder
    base = access.address.base
    if access.shape.varying or access.space == "local":
        for part in parts:
            host = host_vector(e, access.address, access.space, part)
            t.store(b, host, e.context, Warp.ADDRESS + part * e.lanes * 8, align=8)
        return
    narrow = isinstance(base, Register) and e.register_type(base.name) == I32
    window = shared_window(e) if access.space == "shared" else i64(0)
    # A 32-bit address wraps before the constant offset is added to it.
    plain = Address(base, 0)
    pieces = parts if access.shape.per_part else [0]
    for part in pieces:
        start = address_scalar(e, plain, part, first_lane=False)
        count = e.lanes if access.shape.per_part else e.lanes * e.parts
        arguments = [e.context, i32(part * e.lanes), i32(count), start, i64(access.shape.step), window]
        arguments += [i64(access.address.offset), i64(0xFFFFFFFF if narrow else -1)]
        t.call_address(b, RUNTIME.address("addresses"), t.VOID, arguments)


def _unused(e: Emitter, access: _Access) -> int:
    """Return a bit per element that nobody reads: bytes that are loaded only because a vector load is wide."""
    result = 0
    for index, item in enumerate(access.items):
        if not access.store and _name(item) not in e.used:
            result |= 1 << index
    return result
