"""What a memory access moves and where its addresses come from: windows, host addresses, the check of a base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import MAX_ACCESS_BYTES, MAX_DISPLACEMENT, UNMAPPED
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.ir.lattice import VectorShape
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, POINTER, Value, i64
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol


@dataclass(frozen=True, slots=True)
class Access:
    """One access as written: what it moves, and where its addresses come from."""

    instruction: Instruction
    address: Address
    items: tuple[Operand, ...]
    type: str
    size: int
    space: str
    shape: VectorShape
    store: bool

    @property
    def total(self) -> int:
        """Bytes one lane moves."""
        return self.size * len(self.items)


def describe(e: Emitter, instruction: Instruction) -> Access:
    """Take a load or store apart."""
    store = instruction.opcode == "st"
    address, value = instruction.operands if store else instruction.operands[::-1]
    assert isinstance(address, Address)
    type_ = access_type(instruction)
    base = address.base
    shape = e.shape(base)
    return Access(
        instruction, address, elements(value), type_, type_bytes(type_), memory_space(instruction), shape, store
    )


def item_name(operand: Operand) -> str:
    """Return the register a load writes an element to; ``_`` for none."""
    return operand.name if isinstance(operand, Register) else "_"


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
    return e.record_field("shared", "block", BlockRecord.SHARED)


def local_frames(e: Emitter, part: int) -> Value:
    """Return the address of each lane's local memory."""
    base = e.record_field("local", "context", Warp.LOCAL)
    frame = max(e.unit.program.local_bytes, 1)
    return e.affine_vector(e.builder.add(base, i64(part * e.lanes * frame)), frame)


def bounds(e: Emitter, space: str) -> tuple[Value, Value]:
    """Return (lowest address, size) of what an access may touch."""
    if space == "shared":
        return shared_window(e), e.launch(LaunchRecord.SHARED_SIZE)
    return e.launch(LaunchRecord.ARENA), e.launch(LaunchRecord.ARENA_SIZE)


def inside(e: Emitter, offset: Value, space: str, total: int, vector: bool) -> Value:
    """Return whether offsets lie in (or near, where nothing is addressable) a window and are aligned.

    Rotating the low bits up turns a misaligned offset into a huge one: one comparison says both.
    """
    b = e.builder
    bits = total.bit_length() - 1
    size = bounds(e, space)[1]
    limit = e.hoisted(
        f"limit/{space}/{bits}", lambda pre: pre.lshr(pre.add(size, i64(2 * MAX_DISPLACEMENT)), i64(bits))
    )

    def make(value: Value) -> Value:
        return t.splat(b, value, e.lanes) if vector else value

    near = b.add(offset, make(i64(MAX_DISPLACEMENT)))
    if bits:
        near = t.unary_intrinsic(b, "fshr", near, near, make(i64(bits)))
    return b.icmp_unsigned("<", near, make(limit))


def raw_host(e: Emitter, access: Access, part: int) -> tuple[Value, int]:
    """Return (base, byte offset) of an address that is known to be good."""
    base, space = access.address.base, access.space

    def make() -> Value:
        b = e.builder
        window = address_scalar(e, Address(base, 0), part, first_lane=False)
        return b.inttoptr(b.add(window, shared_window(e)) if space == "shared" else window, POINTER)

    name = base.name if isinstance(base, Register) else ""
    if name not in e.unit.program.registers:
        return make(), access.address.offset
    key = ("raw", part if access.shape.per_part else 0, space)
    return e.derived(name, key, make), access.address.offset


def safe_host(e: Emitter, access: Access, part: int) -> tuple[Value, int]:
    """Return (base, byte offset) of an address that may be looked at: one where nothing is addressable if it may not.

    Accesses near each other on one base share the check; their shadow then decides.
    """
    base, space = access.address.base, access.space
    far = access.address.offset & -MAX_DISPLACEMENT
    far += (access.address.offset - far) % access.total  # what is left over must not hide a misalignment
    rest = access.address.offset - far

    def make() -> Value:
        b = e.builder
        low, _ = bounds(e, space)
        window = address_scalar(e, Address(base, far), part, first_lane=False)
        offset = window if space == "shared" else b.sub(window, low)
        host = b.add(window, low) if space == "shared" else window
        nowhere = e.hoisted("nowhere", lambda pre: pre.add(e.launch(LaunchRecord.ARENA), i64(UNMAPPED)))
        return b.inttoptr(b.select(inside(e, offset, space, access.total, vector=False), host, nowhere), POINTER)

    name = base.name if isinstance(base, Register) else ""
    if name not in e.unit.program.registers:
        return make(), rest
    return e.derived(name, (part if access.shape.per_part else 0, far, space, access.total), make), rest


def whole_buffer(e: Emitter, access: Access) -> int:
    """Return the number of the parameter a load's address comes from, -1 where that is not known or not asked."""
    base = access.address.base
    if not isinstance(base, Register) or not e.unit.checked or access.store:
        return -1
    return e.unit.pointer_parameters.get(base.name, -1) if access.space in ("global", "generic", "const") else -1


def readable(e: Emitter, access: Access) -> tuple[Value, Value] | None:
    """Return the lowest address and the size of a buffer of which every byte may be read; None if there is no guess.

    The size is at least ``MOST_BYTES``. Where the buffer is not like that, no address lies near the lowest one.
    """
    number = whole_buffer(e, access)
    if number < 0:
        return None
    table = e.launch_pointer(LaunchRecord.READABLE_BUFFERS)
    return t.load(e.builder, table, 16 * number, I64), t.load(e.builder, table, 16 * number + 8, I64)


def lies_in(e: Emitter, address: Value, buffer: tuple[Value, Value], element: int, extent: int) -> Value:
    """Return whether ``extent`` bytes from an address (or a vector of them) lie in a buffer, aligned to ``element``."""
    b = e.builder
    low, size = buffer
    bits = element.bit_length() - 1
    room = b.sub(size, i64(extent))
    room = b.lshr(room, i64(bits)) if bits else room
    vector = isinstance(address.type, ir.VectorType)
    if vector:
        low, room = t.splat(b, low, e.lanes), t.splat(b, room, e.lanes)
    offset = b.sub(address, low)
    if bits:
        amount = t.splat(b, i64(bits), e.lanes) if vector else i64(bits)
        offset = t.unary_intrinsic(b, "fshr", offset, offset, amount)
    inside = b.icmp_unsigned("<=", offset, room)
    return b.and_(inside, b.icmp_unsigned(">=", buffer[1], i64(extent))) if extent > MAX_ACCESS_BYTES else inside


def lane_bits(e: Emitter, parts: Sequence[int]) -> int:
    """Return the lanes of some parts as bits."""
    return sum(((1 << e.lanes) - 1) << (part * e.lanes) for part in parts)
