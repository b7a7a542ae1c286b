"""Loads at constant offsets from one register, with no store between them: allowed all at once, before the first.

What may be read stays so until something is stored or copied. A loop that the compiler has unrolled asks once for all
its rounds; if one of them is not allowed, each is done the careful way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import Based, Row, Single
from gpuemu_lsp.engine.emulator.codegen.core.addresses import Access, describe, lies_in, raw_host, readable, safe_host
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter, LoadGroup
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I64, Value, i64
from gpuemu_lsp.engine.ptx.model import Instruction, Register

_WIDEST = 64
"""Bytes of shadow looked at with one load."""


def find_groups(
    e: Emitter, code: Sequence[Instruction], supported: Callable[[Instruction], bool]
) -> dict[int, LoadGroup]:
    """Return, for positions in the current block, the groups of two loads or more that they belong to."""
    if not e.unit.checked:
        return {}
    open_: dict[tuple[str, str], list[int]] = {}
    done: list[list[int]] = []
    for position, instruction in enumerate(code):
        if instruction.opcode == "ld" and supported(instruction):
            key = None if e.site_at(position) in e.unit.race_candidates.strong else _key(e, instruction)
            if key is not None:
                open_.setdefault(key, []).append(position)
        elif not ops.supports(instruction):
            done += open_.values()
            open_ = {}
        changed = registers_written(instruction)
        for key in [key for key in open_ if key[0] in changed]:
            done.append(open_.pop(key))
    done += open_.values()
    result: dict[int, LoadGroup] = {}
    for positions in done:
        if len(positions) > 1:
            group = LoadGroup(tuple(code[position] for position in positions))
            result |= dict.fromkeys(positions, group)
    return result


def _key(e: Emitter, load: Instruction) -> tuple[str, str] | None:
    """Return what loads of one group have in common, None for a load that is no part of any."""
    access = describe(e, load)
    base = access.address.base
    if load.guard is not None or not isinstance(base, Register) or base.name not in e.unit.program.registers:
        return None
    if access.space in ("local", "param") or access.shape.varying:
        return None
    return (base.name, access.space) if access.shape.part_uniform or access.shape.step == access.total else None


def allowed(e: Emitter, group: LoadGroup) -> Value:
    """Return whether all loads of a group are allowed; the first one to ask computes it."""
    value = e.load_group_checks.get(id(group))
    if value is None:
        value = e.load_group_checks[id(group)] = _allowed(e, [describe(e, load) for load in group.members])
    return value


def _allowed(e: Emitter, loads: Sequence[Access]) -> Value:
    b = e.builder
    within = _within(e, loads)
    if within is None:
        return _by_shadow(e, loads)
    look, join = e.append_block("look"), e.append_block()
    before = b.block
    b.cbranch(within, join, look).set_weights([20, 1])
    b.position_at_end(look)
    known = e.snapshot()
    found = _by_shadow(e, loads)
    e.restore(known)
    after = b.block
    b.branch(join)
    b.position_at_end(join)
    phi = b.phi(I1)
    phi.add_incoming(ir.Constant(I1, 1), before)
    phi.add_incoming(found, after)
    return phi


def _within(e: Emitter, loads: Sequence[Access]) -> Value | None:
    """Return whether all lie in a buffer of which every byte may be read; None if none is known."""
    first = loads[0]
    buffer = readable(e, first)
    low = min(load.address.offset for load in loads)
    widest = max(load.total for load in loads)
    if buffer is None or any((load.address.offset - low) % load.total for load in loads):
        return None
    b = e.builder
    result = None
    for part in range(e.parts if first.shape.per_part else 1):
        end = max(load.address.offset + _form(load).reach(e, load) for load in loads)
        base, _ = raw_host(e, first, part)
        address = b.add(b.ptrtoint(base, I64), i64(low))
        one = lies_in(e, address, buffer, widest, end - low)
        result = one if result is None else b.and_(result, one)
    return result


def _form(load: Access) -> type[Based]:
    return Single if load.shape.part_uniform else Row


def _by_shadow(e: Emitter, loads: Sequence[Access]) -> Value:
    return _rows(e, loads) if loads[0].shape.step else _places(e, loads)


def _rows(e: Emitter, loads: Sequence[Access]) -> Value:
    b = e.builder
    refused = []
    forms = [Row(e, load) for load in loads]
    safe = [form.safe for form in forms]
    type_ = ir.VectorType(ir.IntType(loads[0].total * 8), e.lanes)
    for part in range(e.parts):
        seen = None
        for form, hosts in zip(forms, safe, strict=True):
            base, offset = form.in_part(hosts, part)
            shadow = t.load(b, base, offset + SHADOW_OFFSET, type_, 1)
            seen = shadow if seen is None else b.and_(seen, shadow)
        bad = forms[0].refused(seen)
        mask = e.active(part)
        refused.append(bad if mask is None else b.and_(bad, mask))
    result = b.not_(e.any_lane(refused))
    for form, hosts in zip(forms, safe, strict=True):
        result = b.and_(result, form.within_reach(hosts))
    return result


def _places(e: Emitter, loads: Sequence[Access]) -> Value:
    """Return whether loads that each have one address are allowed: bytes side by side are looked at together."""
    b = e.builder
    result = None
    for part in range(e.parts if loads[0].shape.per_part else 1):
        bases: dict[int, tuple[Value, list[tuple[int, int]]]] = {}
        for load in loads:
            base, offset = safe_host(e, load, part)
            bases.setdefault(id(base), (base, []))[1].append((offset, offset + load.total))
        for base, pieces in bases.values():
            for start, size in _chunks(pieces):
                bad = _refused(e, base, start, size)
                result = bad if result is None else b.or_(result, bad)
    return b.not_(result)


def _chunks(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return (start, size) of loads that cover these bytes and no others; sizes are powers of two."""
    merged: list[list[int]] = []
    for start, end in sorted(pieces):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    result = []
    for start, end in merged:
        while start < end:
            size = min(_WIDEST, 1 << (end - start).bit_length() - 1)
            result.append((start, size))
            start += size
    return result


def _refused(e: Emitter, base: Value, start: int, size: int) -> Value:
    """Return whether one of ``size`` bytes at a place may not be read."""
    b = e.builder
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


__all__ = ["LoadGroup", "allowed", "find_groups"]
