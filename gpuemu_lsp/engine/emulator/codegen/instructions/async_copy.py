"""``cp.async`` and its groups (PTX ISA section 9.7.9.25): operands in scratch space, and one call of the library."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, SPACE_SHIFT, SPACES, STORE_FLAG
from gpuemu_lsp.engine.emulator.abi.field_access import store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import host_vector
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.instrumentation import trace_access
from gpuemu_lsp.engine.emulator.codegen.core.library_access import window_flag
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import copy_race_flags
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Negated, Operand, Register

_HINTS = frozenset({"L2::64B", "L2::128B", "L2::256B", "L2::cache_hint"})
# .cg caches in L2 only, and copies 16 bytes at once (section 9.7.9.25.3.1).
_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


def supported(instruction: Instruction) -> bool:
    """Return whether this is a supported asynchronous copy, commit or wait."""
    if instruction.opcode != "cp" or instruction.modifiers[:1] != ("async",):
        return False
    words = instruction.modifiers[1:]
    operands = instruction.operands
    if words in (("commit_group",), ("wait_all",)):
        return not operands
    if words == ("wait_group",):
        return len(operands) == 1 and isinstance(operands[0], Immediate)
    return _is_copy(words, operands)


def _is_copy(words: tuple[str, ...], operands: tuple[Operand, ...]) -> bool:
    if len(words) < 3 or words[1] not in ("shared", "shared::cta") or words[2] != "global" or words[0] not in _SIZES:
        return False
    if not set(words[3:]) <= _HINTS or not 3 <= len(operands) <= 5:
        return False
    size = operands[2]
    addresses = isinstance(operands[0], Address) and isinstance(operands[1], Address)
    return addresses and isinstance(size, Immediate) and size.bits in _SIZES[words[0]]


def emit_copy(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions."""
    words = instruction.modifiers[1:]
    if words == ("commit_group",):
        _call(e, "copy_commit")
    elif words == ("wait_all",):
        # Unlike wait_group 0 also for copies that are in no committed group.
        _call(e, "copy_wait", i32(-1))
    elif words == ("wait_group",):
        groups = instruction.operands[0]
        assert isinstance(groups, Immediate)
        _call(e, "copy_wait", i32(groups.bits))
    else:
        _begin(e, instruction)


def _call(e: Emitter, name: str, *more: Value) -> None:
    t.call_address(e.builder, DEVICE_LIBRARY.address(name), t.VOID, [e.context, e.active_mask(), *more])


def _begin(e: Emitter, instruction: Instruction) -> None:
    b = e.builder
    target, source, size, *rest = instruction.operands
    assert isinstance(target, Address) and isinstance(source, Address) and isinstance(size, Immediate)
    if "L2::cache_hint" in instruction.modifiers:
        # The cache policy, a 64-bit operand at the end.
        rest = rest[:-1]
    # The bytes are read now and written by the wait: a kernel that reads the target too early finds it uninitialised.
    for part in range(e.parts):
        for row, value in (
            (Warp.ADDRESSES, host_vector(e, target, "shared", part)),
            (Warp.VALUES, host_vector(e, source, "global", part)),
            (Warp.VALUES.element(WARP_SIZE), _source_bytes(e, rest, size.bits, part)),
        ):
            store_lanes(b, value, e.context, row.element(part * e.lanes))
    # Two accesses, a load and a store, in one instruction: each is traced.
    for row in (Warp.ADDRESSES, Warp.VALUES):
        trace_access(e, row)
    shared = SPACES["shared"] << SPACE_SHIFT | STORE_FLAG
    # Both accesses may race on their own, the write at the time of the wait.
    source_races, target_races = copy_race_flags(e)
    flags = [
        i32(SPACES["global"] << SPACE_SHIFT | window_flag(e, "global") | source_races << RACE_SHIFT),
        i32(shared | target_races << RACE_SHIFT),
    ]
    arguments = [e.context, i32(e.site), e.active_mask(), i32(size.bits), *flags]
    t.call_address(b, DEVICE_LIBRARY.address("copy_begin"), t.VOID, arguments)


def _source_bytes(e: Emitter, rest: list[Operand], size: int, part: int) -> Value:
    """Return the bytes that each lane reads: all, ``src-size``, or none if ``ignore-src`` is true; the rest is zero."""
    b = e.builder
    all_bytes = t.splat(b, i64(size), e.lanes)
    if not rest:
        return all_bytes
    choice = rest[0]
    # ignore-src is a predicate, src-size a 32-bit integer: distinguished by the operand's type.
    register = choice.register if isinstance(choice, Negated) else choice
    if isinstance(register, Register) and e.unit.program.registers.get(register.name) == "pred":
        ignored = e.vector_operand(choice, "pred", part)
        return b.select(ignored, t.splat(b, i64(0), e.lanes), all_bytes)
    return b.zext(e.vector_operand(choice, "b32", part), ir.VectorType(I64, e.lanes))
