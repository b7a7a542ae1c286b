"""Loads and stores: the access form by the shape of the address, its check, and the fallback to the device library."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.codegen.core import library_access, load_groups
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import AccessForm, UniformAccess
from gpuemu_lsp.engine.emulator.codegen.core.addresses import LoadStore, decode, destination
from gpuemu_lsp.engine.emulator.codegen.core.claims import claim_access
from gpuemu_lsp.engine.emulator.codegen.core.contiguous import ContiguousAccess, StridedLoad
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.gather_scatter import GatherScatter
from gpuemu_lsp.engine.emulator.codegen.core.instrumentation import trace_access
from gpuemu_lsp.engine.emulator.codegen.core.lane_vectors import LaneVectors
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import emit_fence, is_race_free, is_strong, race_flags
from gpuemu_lsp.engine.emulator.ir.accesses import has_block_scope
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
"""Modifiers of supported loads and stores. Memory is sequentially consistent here; there are no caches for hints."""

TYPES = frozenset(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)) | {
    "f32",
    "f64",
    "f16",
    "f16x2",
    "bf16",
}


def supported(instruction: Instruction) -> bool:
    """Return whether a load or store is supported."""
    *modifiers, type_ = instruction.modifiers
    if type_ not in TYPES or not set(modifiers) <= KNOWN_MODIFIERS:
        return False
    address = instruction.operands[0 if instruction.opcode == "st" else 1]
    return isinstance(address, Address) and len(instruction.operands) == 2


def emit_access(e: Emitter, instruction: Instruction) -> None:
    """Write a ``ld`` or ``st`` (PTX ISA sections 9.7.9.8 to 9.7.9.12)."""
    access = decode(e, instruction)
    e.materialise_masks()
    _trace(e, access)
    claim_access(e, access)
    if is_strong(e):
        if {"release", "acq_rel"} & set(instruction.modifiers):
            # A releasing operation orders like a fence followed by a relaxed one (PTX ISA section 8.8).
            emit_fence(e, block_scope=has_block_scope(instruction))
        library_access.access_lane_by_lane(e, access)
    elif access.space == "param" and isinstance(access.address.base, Symbol):
        _load_param(e, access)
    elif access.space == "local":
        # Equal addresses are different bytes: each lane has a frame of its own.
        _checked(e, access, GatherScatter(e, access))
    elif access.shape.part_uniform:
        # One scalar access: so short that even baseline code has it inline.
        _checked(e, access, UniformAccess(e, access))
    elif e.unit.baseline and e.unit.checked and len(access.items) == 1 and e.position not in e.load_groups:
        contiguous = access.shape.step == access.size and not access.shape.varying
        (library_access.access_row if contiguous else library_access.access_lane_by_lane)(e, access)
    elif access.shape.step == access.total and not access.shape.varying:
        _checked(e, access, ContiguousAccess(e, access))
    elif StridedLoad.supports(access):
        _checked(e, access, StridedLoad(e, access))
    elif (access.store and access.size < 4) or (e.unit.checked and access.shape.varying and len(access.items) == 1):
        # There are no scatters of less than 32 bits. Varying addresses are often contiguous all the same (a strided
        # loop that lanes leave one by one), which the library tests at run time, before it gathers.
        library_access.access_lane_by_lane(e, access)
    elif LaneVectors.supports(e, access):
        _checked(e, access, LaneVectors(e, access))
    else:
        _checked(e, access, GatherScatter(e, access))


def _trace(e: Emitter, access: LoadStore) -> None:
    """Trace the addresses of an access to global or shared memory; other spaces cause no counted transactions."""
    if e.unit.counting and access.space in ("global", "shared", "generic"):
        library_access.store_addresses(e, access, range(e.parts))
        trace_access(e)


def _load_param(e: Emitter, access: LoadStore) -> None:
    """Load a kernel parameter: uniform, and in bounds by construction."""
    base = access.address.base
    assert isinstance(base, Symbol)
    offset = e.unit.program.params[base.name].offset + base.offset + access.address.offset
    params = e.launch_pointer(LaunchRecord.PARAMS)
    # One scalar for all parts; for a varying register `write` broadcasts it.
    for index, item in enumerate(access.items):
        value = t.load(e.builder, params, offset + index * access.size, ir.IntType(access.size * 8))
        for part in e.result_parts(destination(item)):
            e.write(destination(item), part, value, access.type)


def _checked(e: Emitter, access: LoadStore, form: AccessForm) -> None:
    """Execute ``form`` if its checks pass, else have the device library execute the access lane by lane.

    The blocks are: [readable buffer?] -> [shadow] -> [race detector] -> fast or slow -> end. Each test in brackets
    exists only where it can decide something.
    """
    b = e.builder
    if not e.unit.checked and form.right_for_any_mask():
        for item, values in zip(access.items, form.execute(), strict=False):
            for index, value in enumerate(values):
                parts = form.parts if len(values) == 1 else [form.parts[index]]
                library_access.write_loaded(e, access, item, parts, value)
        return
    # Weights keep the slow path, a call with many arguments, out of the way of the fast one.
    slow, fast, end = e.append_block("slow"), e.append_block(), e.append_block()
    can_race = race_flags(e, access.instruction)
    in_bounds = e.append_block() if can_race else fast
    group = e.load_groups.get(e.position)
    in_buffer = form.in_readable_buffer() if group is None else None
    if in_buffer is not None:
        by_shadow = e.append_block("shadow")
        b.cbranch(in_buffer, in_bounds, by_shadow).set_weights([20, 1])
        b.position_at_end(by_shadow)
        scope = e.snapshot()
        b.cbranch(form.allowed(), in_bounds, slow).set_weights([2000, 1])
        e.restore(scope)
    else:
        allowed = form.allowed() if group is None else load_groups.group_allowed(e, group)
        b.cbranch(allowed, in_bounds, slow).set_weights([2000, 1])
        # Taken after the check: its addresses dominate all that follows, and later accesses may share them.
        scope = e.snapshot()
    if can_race:
        b.position_at_end(in_bounds)
        if not isinstance(form, ContiguousAccess | UniformAccess):
            # The detector takes the addresses of scattered lanes from the scratch space.
            library_access.store_addresses(e, access, form.parts)
        # Before the access is executed: a race is reported by the slow path, which also executes it.
        b.cbranch(is_race_free(e, access, form), fast, slow).set_weights([2000, 1])
    b.position_at_end(fast)
    fast_values = form.execute()
    # Executing may have appended blocks; a phi names the block that branches to it.
    fast_end = b.block
    b.branch(end)
    e.restore(scope)
    b.position_at_end(slow)
    slow_values = library_access.call_library(e, access, form.parts)
    slow_end = b.block
    b.branch(end)
    e.restore(scope)
    b.position_at_end(end)
    if access.store:
        return
    loaded: list[tuple[Operand, Sequence[int], Value]] = []
    for item, ones, others in zip(access.items, fast_values, slow_values, strict=True):
        for index, (one, other) in enumerate(zip(ones, others, strict=True)):
            phi = b.phi(one.type)
            phi.add_incoming(one, fast_end)
            phi.add_incoming(other, slow_end)
            loaded.append((item, form.parts if len(ones) == 1 else [form.parts[index]], phi))
    # All phis first: LLVM requires them at the start of their block.
    for item, parts, value in loaded:
        library_access.write_loaded(e, access, item, parts, value)
