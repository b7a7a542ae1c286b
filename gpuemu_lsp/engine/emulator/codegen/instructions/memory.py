"""Loads and stores: one vector access where lanes are neighbours, one scalar access where they agree, else gathers.

What fails the check of its form is done lane by lane by the runtime, which reports and contains.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.codegen.core import load_groups, runtime_access, strided
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import Form, Row, Single
from gpuemu_lsp.engine.emulator.codegen.core.addresses import (
    Access,
    describe,
    item_name,
)
from gpuemu_lsp.engine.emulator.codegen.core.counters import count_access
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import emit_fence, in_order, needs_lanes, race_flags
from gpuemu_lsp.engine.emulator.codegen.core.scattered import Scattered
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import Value
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Operand, Symbol

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
    e.materialise_masks()
    _count(e, access)
    if needs_lanes(e):
        if {"release", "acq_rel"} & set(instruction.modifiers):
            emit_fence(e)
        runtime_access.lane_by_lane(e, access)
    elif access.space == "param" and isinstance(access.address.base, Symbol):
        _load_param(e, access)
    elif access.space == "local":
        _checked(e, access, Scattered(e, access))
    elif access.shape.part_uniform:
        _checked(e, access, Single(e, access))
    elif e.unit.baseline and e.unit.checked and len(access.items) == 1 and e.position not in e.load_groups:
        in_row = access.shape.step == access.size and not access.shape.varying
        (runtime_access.row if in_row else runtime_access.lane_by_lane)(e, access)
    elif access.shape.step == access.total and not access.shape.varying:
        _checked(e, access, Row(e, access))
    elif strided.supports(access):
        _checked(e, access, strided.Strided(e, access))
    elif (access.store and access.size < 4) or (e.unit.checked and access.shape.varying and len(access.items) == 1):
        runtime_access.lane_by_lane(e, access)
    else:
        _checked(e, access, Scattered(e, access))


def _count(e: Emitter, access: Access) -> None:
    """Note where the access goes; parameters, constants and what a thread has for itself are not counted."""
    if e.unit.counting and access.space in ("global", "shared", "generic"):
        runtime_access.put_addresses(e, access, range(e.parts))
        count_access(e)


def _load_param(e: Emitter, access: Access) -> None:
    """Load a kernel parameter: the same for all lanes, and not subject to faults."""
    base = access.address.base
    assert isinstance(base, Symbol)
    offset = e.unit.program.params[base.name].offset + base.offset + access.address.offset
    params = e.launch_pointer(LaunchRecord.PARAMS)
    for index, item in enumerate(access.items):
        place = offset + index * access.size
        bits = ir.IntType(access.size * 8)
        value = t.load(e.builder, params, place, bits)
        for part in e.result_parts(item_name(item)):
            e.write(item_name(item), part, value, access.type)


def _checked(e: Emitter, access: Access, form: Form) -> None:
    """Run ``form`` if its checks pass, else go lane by lane."""
    b = e.builder
    if not e.unit.checked and form.unconditional():
        for item, values in zip(access.items, form.run(), strict=False):
            for place, value in enumerate(values):
                runtime_access.deliver(e, access, item, form.parts if len(values) == 1 else [form.parts[place]], value)
        return
    slow, fast, end = e.append_block("slow"), e.append_block(), e.append_block()
    raced = race_flags(e, access.instruction)
    good = e.append_block() if raced else fast
    group = e.load_groups.get(e.position)
    fine = form.known() if group is None else None
    if fine is not None:
        look = e.append_block("look")
        b.cbranch(fine, good, look).set_weights([20, 1])
        b.position_at_end(look)
        known = e.snapshot()
        b.cbranch(form.allowed(), good, slow).set_weights([2000, 1])
        e.restore(known)
    else:
        allowed = form.allowed() if group is None else load_groups.allowed(e, group)
        b.cbranch(allowed, good, slow).set_weights([2000, 1])
        known = e.snapshot()
    if raced:
        b.position_at_end(good)
        if not isinstance(form, Row | Single):  # the race checker looks at each lane's address
            runtime_access.put_addresses(e, access, form.parts)
        b.cbranch(in_order(e, access, form), fast, slow).set_weights([2000, 1])
    b.position_at_end(fast)
    quick = form.run()
    quick_end = b.block
    b.branch(end)
    e.restore(known)
    b.position_at_end(slow)
    careful = runtime_access.call(e, access, form.parts)
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
        runtime_access.deliver(e, access, item, parts, value)
