"""Loads and stores: one vector access where lanes are neighbours, one scalar access where they agree, else gathers.

What fails the check of its form is done lane by lane by the runtime, which reports and contains.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen import groups, strided
from gpuemu_lsp.engine.emulator.codegen import ir_tools as t
from gpuemu_lsp.engine.emulator.codegen.addresses import (
    Access,
    address_scalar,
    describe,
    host_vector,
    item_name,
    lane_bits,
    shared_window,
)
from gpuemu_lsp.engine.emulator.codegen.counts import count_access
from gpuemu_lsp.engine.emulator.codegen.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.forms import Form, Row, Single
from gpuemu_lsp.engine.emulator.codegen.ir_tools import I1, I32, I64, POINTER, Value, i32, i64
from gpuemu_lsp.engine.emulator.codegen.linked import RUNTIME
from gpuemu_lsp.engine.emulator.codegen.races import emit_fence, in_order, needs_lanes, race_flags
from gpuemu_lsp.engine.emulator.codegen.runtime import RACE_SHIFT, SPACE_SHIFT, SPACES, STORE_FLAG
from gpuemu_lsp.engine.emulator.codegen.scattered import Scattered
from gpuemu_lsp.engine.emulator.layout import SLOT, Launch, Warp
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Operand, Register, Symbol

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


def supported(instruction: Instruction) -> bool:
    """Return whether a load or store can be run."""
    *modifiers, type_ = instruction.modifiers
    if type_ not in TYPES or not set(modifiers) <= KNOWN_MODIFIERS:
        return False
    address = instruction.operands[0 if instruction.opcode == "st" else 1]
    return isinstance(address, Address) and len(instruction.operands) == 2


def emit_access(e: Emitter, instruction: Instruction) -> None:
    """Write a ``ld`` or ``st`` (PTX ISA sections 9.7.9.8 to 9.7.9.12)."""
    access = describe(e, instruction)
    e.settle_masks()
    _count(e, access)
    if needs_lanes(e):
        if {"release", "acq_rel"} & set(instruction.modifiers):
            emit_fence(e)
        _lane_by_lane(e, access)
    elif access.space == "param" and isinstance(access.address.base, Symbol):
        _load_param(e, access)
    elif access.space == "local":
        _checked(e, access, Scattered(e, access))
    elif access.shape.flat:
        _checked(e, access, Single(e, access))
    elif access.shape.step == access.total and not access.shape.varying:
        _checked(e, access, Row(e, access))
    elif strided.supports(access):
        _checked(e, access, strided.Strided(e, access))
    elif (access.store and access.size < 4) or (e.unit.checked and access.shape.varying and len(access.items) == 1):
        _lane_by_lane(e, access)
    else:
        _checked(e, access, Scattered(e, access))


def _count(e: Emitter, access: Access) -> None:
    """Note where the access goes; parameters, constants and what a thread has for itself are not counted."""
    if e.unit.counting and access.space in ("global", "shared", "generic"):
        _put_addresses(e, access, range(e.parts))
        count_access(e)


def _load_param(e: Emitter, access: Access) -> None:
    """Load a kernel parameter: the same for all lanes, and not subject to faults."""
    base = access.address.base
    assert isinstance(base, Symbol)
    offset = e.unit.program.params[base.name].offset + base.offset + access.address.offset
    params = e.launch(Launch.PARAMS, POINTER)
    for index, item in enumerate(access.items):
        place = offset + index * access.size
        bits = ir.IntType(access.size * 8)
        value = t.load(e.builder, params, place, bits)
        for part in e.result_parts(item_name(item)):
            e.put(item_name(item), part, value, access.type)


def _checked(e: Emitter, access: Access, form: Form) -> None:
    """Run ``form`` if its checks pass, else go lane by lane."""
    b = e.builder
    if not e.unit.checked and form.unconditional():
        for item, values in zip(access.items, form.run(), strict=False):
            for place, value in enumerate(values):
                _deliver(e, access, item, form.parts if len(values) == 1 else [form.parts[place]], value)
        return
    slow, fast, end = e.append_block("slow"), e.append_block(), e.append_block()
    raced = race_flags(e, access.instruction)
    good = e.append_block() if raced else fast
    group = e.groups.get(e.position)
    fine = form.known() if group is None else None
    if fine is not None:
        look = e.append_block("look")
        b.cbranch(fine, good, look).set_weights([20, 1])
        b.position_at_end(look)
        known = e.snapshot()
        b.cbranch(form.allowed(), good, slow).set_weights([2000, 1])
        e.restore(known)
    else:
        allowed = form.allowed() if group is None else groups.allowed(e, group)
        b.cbranch(allowed, good, slow).set_weights([2000, 1])
        known = e.snapshot()
    if raced:
        b.position_at_end(good)
        if not isinstance(form, Row | Single):  # the race checker looks at each lane's address
            _put_addresses(e, access, form.parts)
        b.cbranch(in_order(e, access, form), fast, slow).set_weights([2000, 1])
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


def _deliver(e: Emitter, access: Access, item: Operand, parts: Sequence[int], value: Value) -> None:
    name = item_name(item)
    if name == "_":
        return
    shape = e.unit.info.shapes[name]
    if shape.varying or shape.per_part:
        for part in parts:
            e.put(name, part, value, access.type)
    else:
        e.put(name, 0, value, access.type)


def _lane_by_lane(e: Emitter, access: Access) -> None:
    parts = range(e.parts)
    for item, column in zip(access.items, _call(e, access, parts), strict=False):
        for part, value in enumerate(column):
            _deliver(e, access, item, parts if len(column) == 1 else [part], value)


def _call(e: Emitter, access: Access, parts: Sequence[int]) -> list[list[Value]]:
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
    flags |= race_flags(e, access.instruction) << RACE_SHIFT
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


def _first_lanes(e: Emitter, access: Access, lanes: Value) -> list[list[Value]]:
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


def _put_addresses(e: Emitter, access: Access, parts: Sequence[int]) -> None:
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


def _unused(e: Emitter, access: Access) -> int:
    """Return a bit per element that nobody reads: bytes that are loaded only because a vector load is wide."""
    result = 0
    for index, item in enumerate(access.items):
        if not access.store and item_name(item) not in e.used:
            result |= 1 << index
    return result
