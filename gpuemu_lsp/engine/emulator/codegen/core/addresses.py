"""Addresses of loads and stores: state space windows, host addresses, and checks that precede any access.

An address is an offset in its state space's window (shared, local) or a host address (global, generic, const, param).
Every byte of the arena has a shadow byte at a constant distance; outside the arena there is none. An address is
therefore compared with its window before its shadow byte is loaded, and only then may the access itself follow.
"""

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
class LoadStore:
    """A load or store instruction, decoded: ``items`` are its registers or stored operands, of ``size`` bytes each."""

    instruction: Instruction
    address: Address
    items: tuple[Operand, ...]
    type: str
    size: int
    space: str
    shape: VectorShape
    """Shape of the address."""
    store: bool

    @property
    def total(self) -> int:
        """Bytes that one lane moves."""
        return self.size * len(self.items)


def decode(e: Emitter, instruction: Instruction) -> LoadStore:
    """Decode a ``ld`` or ``st``."""
    store = instruction.opcode == "st"
    address, value = instruction.operands if store else instruction.operands[::-1]
    assert isinstance(address, Address)
    type_ = access_type(instruction)
    shape = e.shape(address.base)
    return LoadStore(
        instruction, address, elements(value), type_, type_bytes(type_), memory_space(instruction), shape, store
    )


def destination(operand: Operand) -> str:
    """Return the register that a load writes an element to; ``_``, the bit bucket, for none."""
    return operand.name if isinstance(operand, Register) else "_"


# ---- addresses in their window ---------------------------------------------------------------------------------------


def address_scalar(e: Emitter, address: Address, part: int) -> Value:
    """Return the base of an address in its window as an i64."""
    base = address.base
    if isinstance(base, Register):
        wide = e.register_type(base.name) == I64 if base.name in e.unit.program.registers else False
        value = e.scalar_operand(base, "b64" if wide else "b32", part)
        # A 32-bit address (.shared, .local) and the offset are added modulo 2**32: compilers leave a register negative
        # where the offset makes up for it. No window has 2 GiB, so that the sum is right with a sign.
        value = value if wide else e.builder.sext(value, I64)
    else:
        value = _fixed(e, base)
    return e.builder.add(value, i64(address.offset)) if address.offset else value


def _fixed(e: Emitter, base: Symbol | Immediate) -> Value:
    return e.symbol(base) if isinstance(base, Symbol) else i64(base.bits)


def address_vector(e: Emitter, address: Address, part: int) -> Value:
    """Return the addresses of one part in their window as a vector of i64."""
    base = address.base
    vector = ir.VectorType(I64, e.lanes)
    if isinstance(base, Register):
        wide = e.register_type(base.name) == I64
        value = e.vector_operand(base, "b64" if wide else "b32", part)
        value = value if wide else e.builder.sext(value, vector)
    else:
        value = t.splat(e.builder, _fixed(e, base), e.lanes)
    if address.offset:
        value = e.builder.add(value, t.splat(e.builder, i64(address.offset), e.lanes))
    return value


def host_vector(e: Emitter, address: Address, space: str, part: int) -> Value:
    """Return the host addresses of one part: those in the window plus its start (PTX ISA section 6.4.1.1)."""
    value = address_vector(e, address, part)
    if space == "shared":
        return e.builder.add(value, t.splat(e.builder, shared_window(e), e.lanes))
    if space == "local":
        return e.builder.add(value, local_frames(e, part))
    return value


def shared_window(e: Emitter) -> Value:
    """Return the host address of the block's shared memory."""
    return e.record_field("shared", "block", BlockRecord.SHARED)


def local_frames(e: Emitter, part: int) -> Value:
    """Return the host address of each lane's local memory: frames of the warp's lanes are adjacent."""
    base = e.record_field("local", "context", Warp.LOCAL)
    frame = max(e.unit.program.local_bytes, 1)
    return e.affine_vector(e.builder.add(base, i64(part * e.lanes * frame)), frame)


def window_bounds(e: Emitter, space: str) -> tuple[Value, Value]:
    """Return the lowest host address and the size in bytes of the memory that an access may touch."""
    if space == "shared":
        return shared_window(e), e.launch(LaunchRecord.SHARED_SIZE)
    window = e.unit.claims.window(e.site)
    if window:
        start = LaunchRecord.CLAIM_WINDOWS.element(2 * window - 2)
        return e.launch(start), e.launch(start.element(1))
    return e.launch(LaunchRecord.ARENA), e.launch(LaunchRecord.ARENA_SIZE)


def window_name(e: Emitter, space: str) -> str:
    """Return a name of the memory of :func:`window_bounds`."""
    return space if space == "shared" else e.unit.claims.window(e.site).name


# ---- host addresses --------------------------------------------------------------------------------------------------


def host_address(e: Emitter, access: LoadStore, part: int) -> tuple[Value, int]:
    """Return (pointer, byte offset) of an access, unchecked: to be used after the check has passed."""
    base, space = access.address.base, access.space

    # The register alone: accesses at other offsets share the pointer, and the offset folds into the addressing mode.
    def make() -> Value:
        b = e.builder
        window = address_scalar(e, Address(base, 0), part)
        return b.inttoptr(b.add(window, shared_window(e)) if space == "shared" else window, POINTER)

    name = base.name if isinstance(base, Register) else ""
    if name not in e.unit.program.registers:
        return make(), access.address.offset
    key = ("raw", part if access.shape.per_part else 0, space)
    return e.derived(name, key, make), access.address.offset


def shadowed_address(e: Emitter, access: LoadStore, part: int) -> tuple[Value, int]:
    """Return (pointer, byte offset) of the access if its shadow bytes exist, else of unaddressable memory.

    Accesses that are at most ``MAX_DISPLACEMENT`` apart on one base register share the range check.
    """
    base, space = access.address.base, access.space
    origin = access.address.offset & -MAX_DISPLACEMENT
    # The check of the shared origin includes its alignment: what remains must be a multiple of the access's size.
    origin += (access.address.offset - origin) % access.total
    rest = access.address.offset - origin

    def make() -> Value:
        b = e.builder
        low, _ = window_bounds(e, space)
        window = address_scalar(e, Address(base, origin), part)
        offset = window if space == "shared" else b.sub(window, low)
        host = b.add(window, low) if space == "shared" else window
        unmapped = e.hoisted("unmapped", lambda pre: pre.add(e.launch(LaunchRecord.ARENA), i64(UNMAPPED)))
        # A select and not a branch: the shadow of unmapped memory refuses the access, so that one branch, after the
        # shadow, decides on range, alignment and initialisation together.
        return b.inttoptr(b.select(_near_window(e, offset, space, access.total), host, unmapped), POINTER)

    name = base.name if isinstance(base, Register) else ""
    if name not in e.unit.program.registers:
        return make(), rest
    key = (part if access.shape.per_part else 0, origin, window_name(e, space), access.total)
    return e.derived(name, key, make), rest


def _near_window(e: Emitter, offset: Value, space: str, size: int) -> Value:
    """Return whether an offset is aligned to ``size`` and inside its window, or near it, where shadow bytes exist."""
    b = e.builder
    bits = size.bit_length() - 1
    window_size = window_bounds(e, space)[1]
    limit = e.hoisted(
        f"limit/{window_name(e, space)}/{bits}",
        lambda pre: pre.lshr(pre.add(window_size, i64(2 * MAX_DISPLACEMENT)), i64(bits)),
    )
    near = b.add(offset, i64(MAX_DISPLACEMENT))
    if bits:
        # Rotated right, low bits that misalignment would set become the highest: one comparison checks both.
        near = t.unary_intrinsic(b, "fshr", near, near, i64(bits))
    return b.icmp_unsigned("<", near, limit)


# ---- buffers that are readable as a whole ----------------------------------------------------------------------------


def readable_parameter(e: Emitter, access: LoadStore) -> int:
    """Return the number of the parameter whose buffer a load probably reads, or -1."""
    base = access.address.base
    if not isinstance(base, Register) or not e.unit.checked or access.store:
        return -1
    # Shared and local memory is never readable as a whole from the start: it begins uninitialised.
    known_space = access.space in ("global", "generic", "const")
    return e.unit.pointer_parameters.get(base.name, -1) if known_space else -1


def readable_buffer(e: Emitter, access: LoadStore) -> tuple[Value, Value] | None:
    """Return start and size of the buffer that a load probably reads; None without a guess.

    A load inside needs no shadow byte: the launch lists a buffer only if all of its bytes are initialised and stay
    addressable. Listed sizes are at least ``MAX_ACCESS_BYTES``; the start of a buffer that is not listed is an address
    near which there is none.
    """
    number = readable_parameter(e, access)
    if number < 0:
        return None
    table = e.launch_pointer(LaunchRecord.READABLE_BUFFERS)
    return t.load(e.builder, table, 16 * number, I64), t.load(e.builder, table, 16 * number + 8, I64)


def lies_in_buffer(e: Emitter, address: Value, buffer: tuple[Value, Value], element: int, extent: int) -> Value:
    """Return whether ``extent`` bytes from an address are inside a buffer, and the address aligned to ``element``.

    ``address`` is an i64 or a vector of them; the result is an i1 or a vector of them.
    """
    b = e.builder
    low, size = buffer
    bits = element.bit_length() - 1
    last = b.sub(size, i64(extent))
    last = b.lshr(last, i64(bits)) if bits else last
    vector = isinstance(address.type, ir.VectorType)
    if vector:
        low, last = t.splat(b, low, e.lanes), t.splat(b, last, e.lanes)
    offset = b.sub(address, low)
    if bits:
        # As in _near_window. Listed buffers are aligned to 32 bytes, the widest access, so that the offset is aligned
        # when the address is.
        amount = t.splat(b, i64(bits), e.lanes) if vector else i64(bits)
        offset = t.unary_intrinsic(b, "fshr", offset, offset, amount)
    inside = b.icmp_unsigned("<=", offset, last)
    # Up to MAX_ACCESS_BYTES the subtraction above cannot wrap.
    return b.and_(inside, b.icmp_unsigned(">=", buffer[1], i64(extent))) if extent > MAX_ACCESS_BYTES else inside


def part_mask(e: Emitter, parts: Sequence[int]) -> int:
    """Return the lanes of some parts as bits."""
    return sum(((1 << e.lanes) - 1) << (part * e.lanes) for part in parts)
