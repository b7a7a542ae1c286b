"""Atomic operations (PTX ISA sections 9.7.13.5 and 9.7.13.6), executed lane by lane.

Lanes that update one address must see each other's results, in some order; here it is that of the lane numbers. One
internal function per operation and type loops over the active lanes.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, SPACE_SHIFT, SPACES, STORE_FLAG, WINDOW_SHIFT
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_lanes
from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET, STORE_MASK, STORED, Shadow
from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import host_vector
from gpuemu_lsp.engine.emulator.codegen.core.claims import claim_lanes
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.instrumentation import trace_access
from gpuemu_lsp.engine.emulator.codegen.core.library_access import window_flag
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import emit_fence, race_flags
from gpuemu_lsp.engine.emulator.devicelib.claim_windows import global_window
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.devicelib.shadow_bytes import mark_written
from gpuemu_lsp.engine.emulator.ir.accesses import has_block_scope
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Operand, Register

_OPERATIONS = frozenset({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"})

_HINTS = frozenset(
    {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "global", "shared", "shared::cta",
     "noftz", "sync"}
)  # fmt: skip

_INTEGERS = frozenset({"b16", "b32", "b64", "u32", "u64", "s32", "s64"})
_FLOATS = frozenset({"f32", "f64", "f16", "bf16", "f16x2", "bf16x2"})


def supported(instruction: Instruction) -> bool:
    """Return whether an ``atom`` or ``red`` is supported."""
    *modifiers, type_ = instruction.modifiers
    operation = [m for m in modifiers if m in _OPERATIONS]
    if len(operation) != 1 or set(modifiers) - _HINTS - _OPERATIONS:
        return False
    if type_ in _FLOATS:
        return operation[0] in ("add", "min", "max") and (operation[0] == "add" or type_[-2:] == "x2" or "16" in type_)
    return type_ in _INTEGERS and (type_ != "b16" or operation[0] in ("cas", "exch"))


def emit_atomic(e: Emitter, instruction: Instruction) -> None:
    """Write an ``atom`` or ``red``: operands in scratch space, one call, old values from there."""
    b = e.builder
    operands = list(instruction.operands)
    target: Operand = operands.pop(0) if instruction.opcode == "atom" else Register("_")
    address, *values = operands
    assert isinstance(address, Address)
    type_ = access_type(instruction)
    size = type_bytes(type_)
    space = memory_space(instruction)
    # All operands before the call: the loop over lanes reads them from memory by lane number.
    for part in range(e.parts):
        store_lanes(b, host_vector(e, address, space, part), e.context, Warp.ADDRESSES.element(part * e.lanes))
        for row, operand in enumerate(values):
            value = e.vector_operand(operand, f"b{size * 8}", part)
            t.store(b, value, e.context, Warp.VALUES + row * REGISTER_BYTES + part * e.lanes * size, align=1)
    trace_access(e)
    claim_lanes(e, size)
    commutes = e.site in e.unit.claims.commuting
    function = _function(e.module, _operation(instruction), type_, checked=e.unit.checked, commutes=commutes)
    # A releasing operation orders like a fence followed by a relaxed one (section 8.8).
    if {"release", "acq_rel"} & set(instruction.modifiers):
        emit_fence(e, block_scope=has_block_scope(instruction))
    flags = SPACES[space] << SPACE_SHIFT | window_flag(e, space) | race_flags(e, instruction) << RACE_SHIFT
    b.call(function, [e.context, i32(e.site), e.active_mask(), i32(flags)])
    # A red has no target, and no old values are loaded.
    name = target.name if isinstance(target, Register) else "_"
    row_type = ir.VectorType(ir.IntType(size * 8), e.lanes)
    for part in e.result_parts(name):
        old = t.load(b, e.context, Warp.VALUES + 2 * REGISTER_BYTES + part * e.lanes * size, row_type, align=1)
        e.write(name, part, old, f"b{size * 8}" if type_[0] not in "s" else type_)


def _operation(instruction: Instruction) -> str:
    return next(m for m in instruction.modifiers if m in _OPERATIONS)


def _function(module: ir.Module, operation: str, type_: str, *, checked: bool, commutes: bool) -> Value:
    """Return ``(context, site, mask, flags)``, which executes the operation for each lane of the mask in turn.

    An operation that ``commutes`` is one of the host too, as blocks that do the same are executed at the same time.
    """
    name = f"atom_{operation}_{type_}{'_commuting' if commutes else ''}"
    existing = module.globals.get(name)
    if existing is not None:
        return existing
    function, b = t.new_function(module, name, t.VOID, [POINTER, I32, I32, I32])
    function.linkage = "internal"
    # A loop with checks is long: one copy per operation and type, however often a kernel uses it.
    function.attributes.add("noinline")
    context, site, mask, flags = function.args
    size = type_bytes(type_)
    integer = ir.IntType(size * 8)
    races = b.lshr(flags, i32(RACE_SHIFT))
    low, limit = _window(b, context, flags, size)
    with t.for_lanes(b, mask) as lane:
        lane64 = b.zext(lane, I64)
        # Lane numbers are known at run time only, hence scratch memory and not vector registers.
        address = t.load(b, context, b.add(i64(Warp.ADDRESSES), b.shl(lane64, i64(3))), I64)
        value = b.add(i64(Warp.VALUES), b.mul(lane64, i64(size)))
        execute, end = b.append_basic_block("execute"), b.append_basic_block("executed")
        mark, check, refused = (b.append_basic_block(one) for one in ("mark", "check", "refused"))

        def allowed(access: int, b: ir.IRBuilder = b, lane: Value = lane, address: Value = address) -> Value:
            arguments = [context, site, lane, address, i32(size), i32(size), b.or_(flags, i32(access))]
            return t.call_address(b, DEVICE_LIBRARY.address("check_access"), I1, arguments)

        if checked:
            _check_inline(b, operation, address, (low, limit), integer, (execute, mark, check))
            b.position_at_end(check)
            # Not for an exchange, which overwrites the value: kernels initialise shared flags and locks by it.
            if operation != "exch":
                readable = b.append_basic_block("readable")
                b.cbranch(allowed(0), readable, refused)
                b.position_at_end(readable)
            b.cbranch(allowed(STORE_FLAG), mark, refused)
        else:
            b.branch(execute)
            b.position_at_end(check)
            b.branch(refused)
        b.position_at_end(refused)
        # Contained: memory stays as it is, and the old value is a fixed one.
        t.store(b, ir.Constant(integer, 0), context, b.add(value, i64(2 * REGISTER_BYTES)), align=1)
        b.branch(end)
        b.position_at_end(mark)
        mark_written(b, address, size)
        b.branch(execute)
        b.position_at_end(execute)
        with b.if_then(b.icmp_unsigned("!=", races, i32(0))):
            arguments = [context, site, lane, address, i32(size), races, i64(0)]
            t.call_address(b, DEVICE_LIBRARY.address("race_lane"), t.VOID, arguments)
        if commutes:
            _combine_at_once(b, operation, type_, address, t.load(b, context, value, integer, align=1))
        else:
            _combine(b, operation, type_, context, address, value)
        b.branch(end)
        b.position_at_end(end)
    b.ret_void()
    return function


def _combine(b: ir.IRBuilder, operation: str, type_: str, context: Value, address: Value, value: Value) -> None:
    """Execute an operation with the operands at an offset in the context, where the old value is stored, too."""
    integer = ir.IntType(8 * type_bytes(type_))
    # A plain load and store: no other thread of the host accesses this memory.
    old = t.load(b, address, 0, integer, align=1)
    first = t.load(b, context, value, integer, align=1)
    second = t.load(b, context, b.add(value, i64(REGISTER_BYTES)), integer, align=1) if operation == "cas" else None
    if (operation, type_) == ("add", "f32"):
        in_shared = _is_shared(b, context, address)
        new = b.select(in_shared, _sum(b, old, first, ftz=False), _sum(b, old, first, ftz=True))
    else:
        new = _combined(b, operation, type_, old, first, second)
    t.store(b, new, address, 0, align=1)
    # A third row, since the operands of lanes that have not had their turn must stay.
    t.store(b, old, context, b.add(value, i64(2 * REGISTER_BYTES)), align=1)


def _combine_at_once(b: ir.IRBuilder, operation: str, type_: str, address: Value, operand: Value) -> None:
    """Execute an operation whose result is not used, while other threads of the host do the same."""
    unsigned = operation in ("min", "max") and type_[0] != "s"
    b.atomic_rmw(f"u{operation}" if unsigned else operation, t.at(b, address, 0), operand, "monotonic")


def _is_shared(b: ir.IRBuilder, context: Value, address: Value) -> Value:
    launch, block = load_pointer(b, context, Warp.LAUNCH), load_pointer(b, context, Warp.BLOCK)
    offset = b.sub(address, load_field(b, block, BlockRecord.SHARED))
    return b.icmp_unsigned("<", offset, load_field(b, launch, LaunchRecord.SHARED_SIZE))


def _sum(b: ir.IRBuilder, old: Value, value: Value, *, ftz: bool) -> Value:
    """Return the f32 sum that ``add`` stores.

    On global memory subnormals are flushed (section 9.7.13.5; ``ATOMG.ADD.F32.FTZ`` and ``REDG.ADD.F32.FTZ`` in SASS).
    On shared memory they are not: there ptxas emits a loop of FADD and compare-and-swap, also for generic addresses.
    """
    modifiers = ("rn", *(("ftz",) if ftz else ()), "f32")
    instruction = Instruction("add", modifiers, (Register("_"), Register("_"), Register("_")))
    result = ops.emit(b, instruction, [ops.read_as(b, old, "f32"), ops.read_as(b, value, "f32")])[0]
    return ops.write_as(b, result, "f32", old.type)


def _window(b: ir.IRBuilder, context: Value, flags: Value, size: int) -> tuple[Value, Value]:
    """Return the lowest address of an operation's window, and the number of addresses from there on it may have."""
    shared = b.icmp_unsigned("==", b.and_(b.lshr(flags, i32(SPACE_SHIFT)), i32(3)), i32(SPACES["shared"]))
    launch, block = load_pointer(b, context, Warp.LAUNCH), load_pointer(b, context, Warp.BLOCK)
    start, size_of_window = global_window(b, launch, b.lshr(flags, i32(WINDOW_SHIFT)))
    low = b.select(shared, load_field(b, block, BlockRecord.SHARED), start)
    extent = b.select(shared, load_field(b, launch, LaunchRecord.SHARED_SIZE), size_of_window)
    # A window is never smaller than an operand: both sizes are multiples of 16 bytes.
    return low, b.sub(extent, i64(size - 1))


def _check_inline(
    b: ir.IRBuilder,
    operation: str,
    address: Value,
    window: tuple[Value, Value],
    integer: ir.IntType,
    targets: tuple[ir.Block, ir.Block, ir.Block],
) -> None:
    """Branch to one of three targets: (allowed and marked as written, allowed but not marked, to be checked by a call).

    The usual operations, repeated updates of initialised memory, thus need neither a call nor a store of shadow bytes.
    """
    allowed, mark, check = targets
    size = integer.width // 8
    low, limit = window
    inside = b.icmp_unsigned("<", b.sub(address, low), limit)
    aligned = b.icmp_unsigned("==", b.and_(address, i64(size - 1)), i64(0))
    shadow_block = b.append_basic_block("shadow")
    b.cbranch(b.and_(inside, aligned), shadow_block, check)
    b.position_at_end(shadow_block)
    shadow = t.load(b, b.add(address, i64(SHADOW_OFFSET)), 0, integer, align=1)
    seen = b.and_(shadow, _bytes(integer, STORE_MASK | STORED))
    unmarked = b.append_basic_block("unmarked")
    b.cbranch(b.icmp_unsigned("==", seen, _bytes(integer, STORED)), allowed, unmarked)
    b.position_at_end(unmarked)
    wanted = Shadow.ADDRESSABLE if operation == "exch" else READABLE
    seen = b.and_(shadow, _bytes(integer, STORE_MASK | wanted))
    b.cbranch(b.icmp_unsigned("==", seen, _bytes(integer, wanted)), mark, check)


def _bytes(integer: ir.IntType, byte: int) -> Value:
    return ir.Constant(integer, int.from_bytes(bytes([byte]) * (integer.width // 8), "little"))


def _combined(b: ir.IRBuilder, operation: str, type_: str, old: Value, value: Value, second: Value) -> Value:
    """Return the new value in memory."""
    zero, one = ir.Constant(old.type, 0), ir.Constant(old.type, 1)
    if operation == "exch":
        return value
    if operation == "cas":
        # Bits are compared, also of floats: two NaNs of equal bits are equal, +0 and -0 are not.
        return b.select(b.icmp_unsigned("==", old, value), second, old)
    if operation == "inc":
        return b.select(b.icmp_unsigned(">=", old, value), zero, b.add(old, one))
    if operation == "dec":
        wraps = b.or_(b.icmp_unsigned("==", old, zero), b.icmp_unsigned(">", old, value))
        return b.select(wraps, value, b.sub(old, one))
    if type_ in _FLOATS:
        # As the instruction on registers, rounding to nearest even; f32 sums are made in `_sum`.
        rounding = ("rn",) if operation == "add" else ()
        instruction = Instruction(operation, (*rounding, type_), (Register("_"), Register("_"), Register("_")))
        result = ops.emit(b, instruction, [ops.read_as(b, old, type_), ops.read_as(b, value, type_)])[0]
        return ops.write_as(b, result, type_, old.type)
    if operation in ("min", "max"):
        compare = b.icmp_signed if type_[0] == "s" else b.icmp_unsigned
        return b.select(compare("<" if operation == "min" else ">", old, value), old, value)
    return {"add": b.add, "and": b.and_, "or": b.or_, "xor": b.xor}[operation](old, value)
