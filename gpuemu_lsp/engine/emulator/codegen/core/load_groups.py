"""Load groups: loads at constant offsets from one register, without a store between them, share one check.

A byte stays readable until something is stored or copied. A loop that the compiler has unrolled is checked once for all
its iterations, before the first load; if the check fails, each load of the group takes its slow path, which reports
those that are faulty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import BaseAddressForm, UniformAccess
from gpuemu_lsp.engine.emulator.codegen.core.addresses import (
    LoadStore,
    decode,
    host_address,
    lies_in_buffer,
    readable_buffer,
    shadowed_address,
)
from gpuemu_lsp.engine.emulator.codegen.core.contiguous import ContiguousAccess
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter, LoadGroup
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I64, Value, i64
from gpuemu_lsp.engine.ptx.model import Instruction, Register

_MAX_CHUNK_BYTES = 64
"""Most bytes of shadow that one load covers: the width of a 512-bit vector."""


def find_groups(
    e: Emitter, code: Sequence[Instruction], supported: Callable[[Instruction], bool]
) -> dict[int, LoadGroup]:
    """Return the groups of two or more loads in the current block, by the positions of their members."""
    if not e.unit.checked:
        return {}
    open_groups: dict[tuple[str, str], list[int]] = {}
    closed: list[list[int]] = []
    for position, instruction in enumerate(code):
        if instruction.opcode == "ld" and supported(instruction):
            # A strong load may acquire what another thread has initialised: its check cannot be hoisted.
            key = None if e.site_at(position) in e.unit.race_candidates.strong else _key(e, instruction)
            if key is not None:
                open_groups.setdefault(key, []).append(position)
        elif not ops.supports(instruction):
            # Only arithmetic is certain to leave memory and shadow bytes as they are.
            closed += open_groups.values()
            open_groups = {}
        # Loads themselves too: one that overwrites its address register ends the group.
        written = registers_written(instruction)
        for key in [key for key in open_groups if key[0] in written]:
            closed.append(open_groups.pop(key))
    closed += open_groups.values()
    result: dict[int, LoadGroup] = {}
    for positions in closed:
        # Alone, a load is checked by its access form.
        if len(positions) > 1:
            group = LoadGroup(tuple(code[position] for position in positions))
            result |= dict.fromkeys(positions, group)
    return result


def _key(e: Emitter, load: Instruction) -> tuple[str, str] | None:
    """Return the base register and state space that the loads of a group share; None for a load outside any group."""
    access = decode(e, load)
    base = access.address.base
    # A guarded load has another active mask than the loads before and after it.
    if load.guard is not None or not isinstance(base, Register) or base.name not in e.unit.program.registers:
        return None
    # Parameters are not checked, and local frames need the exact check of each lane.
    if access.space in ("local", "param") or access.shape.varying:
        return None
    return (base.name, access.space) if access.shape.part_uniform or access.shape.step == access.total else None


def group_allowed(e: Emitter, group: LoadGroup) -> Value:
    """Return whether all loads of a group are allowed; computed at its first load, which dominates the others."""
    value = e.load_group_checks.get(id(group))
    if value is None:
        value = e.load_group_checks[id(group)] = _allowed(e, [decode(e, load) for load in group.members])
    return value


def _allowed(e: Emitter, loads: Sequence[LoadStore]) -> Value:
    b = e.builder
    in_buffer = _in_readable_buffer(e, loads)
    if in_buffer is None:
        return _allowed_by_shadow(e, loads)
    by_shadow, join = e.append_block("shadow"), e.append_block()
    # The shadow test is off the hot path, and what it computes is unknown behind it.
    before = b.block
    b.cbranch(in_buffer, join, by_shadow).set_weights([20, 1])
    b.position_at_end(by_shadow)
    scope = e.snapshot()
    found = _allowed_by_shadow(e, loads)
    e.restore(scope)
    after = b.block
    b.branch(join)
    b.position_at_end(join)
    phi = b.phi(I1)
    phi.add_incoming(ir.Constant(I1, 1), before)
    phi.add_incoming(found, after)
    return phi


def _in_readable_buffer(e: Emitter, loads: Sequence[LoadStore]) -> Value | None:
    """Return whether all loads lie in one buffer that is readable as a whole; None if there is no such guess."""
    first = loads[0]
    buffer = readable_buffer(e, first)
    low = min(load.address.offset for load in loads)
    widest = max(load.total for load in loads)
    # One alignment test serves all only if their distances are multiples of their sizes.
    if buffer is None or any((load.address.offset - low) % load.total for load in loads):
        return None
    b = e.builder
    result = None
    for part in range(e.parts if first.shape.per_part else 1):
        end = max(load.address.offset + _form(load).extent(e, load) for load in loads)
        base, _ = host_address(e, first, part)
        address = b.add(b.ptrtoint(base, I64), i64(low))
        one = lies_in_buffer(e, address, buffer, widest, end - low)
        result = one if result is None else b.and_(result, one)
    return result


def _form(load: LoadStore) -> type[BaseAddressForm]:
    return UniformAccess if load.shape.part_uniform else ContiguousAccess


def _allowed_by_shadow(e: Emitter, loads: Sequence[LoadStore]) -> Value:
    return _contiguous_allowed(e, loads) if loads[0].shape.step else _uniform_allowed(e, loads)


def _contiguous_allowed(e: Emitter, loads: Sequence[LoadStore]) -> Value:
    b = e.builder
    refused = []
    forms = [ContiguousAccess(e, load) for load in loads]
    shadowed = [form.shadowed for form in forms]
    type_ = ir.VectorType(ir.IntType(loads[0].total * 8), e.lanes)
    for part in range(e.parts):
        # The conjunction of all shadow vectors, and one comparison: a bit that one load lacks is missing in it.
        seen = None
        for form, addresses in zip(forms, shadowed, strict=True):
            base, offset = form.of_part(addresses, part)
            shadow = t.load(b, base, offset + SHADOW_OFFSET, type_, 1)
            seen = shadow if seen is None else b.and_(seen, shadow)
        bad = forms[0].refused(seen)
        mask = e.active(part)
        refused.append(bad if mask is None else b.and_(bad, mask))
    result = b.not_(e.any_lane(refused))
    for form, addresses in zip(forms, shadowed, strict=True):
        result = b.and_(result, form.unreplaced(addresses))
    return result


def _uniform_allowed(e: Emitter, loads: Sequence[LoadStore]) -> Value:
    """Return whether loads from one address each are allowed; the shadow of adjacent bytes is tested together."""
    b = e.builder
    result = None
    for part in range(e.parts if loads[0].shape.per_part else 1):
        bases: dict[int, tuple[Value, list[tuple[int, int]]]] = {}
        for load in loads:
            # By identity: loads far apart have bases of their own, with separate range checks.
            base, offset = shadowed_address(e, load, part)
            bases.setdefault(id(base), (base, []))[1].append((offset, offset + load.total))
        for base, ranges in bases.values():
            for start, size in _chunks(ranges):
                bad = _refused(e, base, start, size)
                result = bad if result is None else b.or_(result, bad)
    return b.not_(result)


def _chunks(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return (start, size) of chunks that cover exactly the bytes of some ranges; sizes are powers of two."""
    merged: list[list[int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    result = []
    for start, end in merged:
        # Exactly: a byte in between that is not loaded may be uninitialised.
        while start < end:
            size = min(_MAX_CHUNK_BYTES, 1 << (end - start).bit_length() - 1)
            result.append((start, size))
            start += size
    return result


def _refused(e: Emitter, base: Value, start: int, size: int) -> Value:
    """Return whether one of ``size`` bytes may not be read."""
    b = e.builder
    # Up to 8 bytes one integer, above that a vector of 64-bit integers whose comparison is packed into a mask.
    word = ir.IntType(min(size, 8) * 8)
    wanted = ir.Constant(word, int.from_bytes(bytes([READABLE]) * (word.width // 8), "little"))
    if size <= 8:
        seen = t.load(b, base, start + SHADOW_OFFSET, word, 1)
        return b.icmp_unsigned("!=", b.and_(seen, wanted), wanted)
    count = size // 8
    many = t.splat(b, wanted, count)
    seen = t.load(b, base, start + SHADOW_OFFSET, ir.VectorType(word, count), 1)
    bits = b.bitcast(b.icmp_unsigned("!=", b.and_(seen, many), many), ir.IntType(count))
    return b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
