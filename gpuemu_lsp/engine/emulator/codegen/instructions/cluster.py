"""Addresses in the shared memory of other blocks of the cluster: ``mapa``, ``getctarank``, conversions."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_lanes, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.devicelib.cluster import ClusterOperation
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import CLUSTER_ADDRESS
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Instruction, Register

_SHARED = "shared::cluster"
_CONVERSIONS = {
    "generic": ClusterOperation.GENERIC,
    "inside": ClusterOperation.INSIDE,
    "shared": ClusterOperation.SHARED,
    "leader": ClusterOperation.LEADER,
}


def supported(instruction: Instruction) -> bool:
    """Return whether this computes an address of the cluster's shared memory, or the rank of its block."""
    return _operation(instruction) is not None


def _operation(instruction: Instruction) -> ClusterOperation | None:
    words, count = instruction.modifiers, len(instruction.operands)
    shared = words[0] == _SHARED if words else False
    if instruction.opcode == CLUSTER_ADDRESS:
        return _CONVERSIONS[words[0]]
    if words[-1:] not in (("u32",), ("u64",)):
        return None
    if instruction.opcode == "mapa" and count == 3:
        return ClusterOperation.MAP_SHARED if shared else ClusterOperation.MAP_GENERIC
    if instruction.opcode == "getctarank" and count == 2:
        return ClusterOperation.RANK_SHARED if shared else ClusterOperation.RANK_GENERIC
    return None


def emit_cluster_address(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions (PTX ISA sections 9.7.9.20 to 9.7.9.24): one call for the lanes of the warp."""
    operation = _operation(instruction)
    assert operation is not None
    b = e.builder
    target, source, *rest = instruction.operands
    type_ = instruction.modifiers[-1]
    for part in range(e.parts):
        address = e.vector_operand(source, f"b{type_[1:]}", part)
        rank = e.vector_operand(rest[0], "b32", part) if rest else t.splat(b, i32(0), e.lanes)
        for row, value in ((Warp.ADDRESSES, address), (Warp.VALUES, rank)):
            store_lanes(b, _wide(e, value), e.context, row.element(part * e.lanes))
    arguments = [e.context, e.active_mask(), i32(operation)]
    t.call_address(b, DEVICE_LIBRARY.address("cluster_address"), t.VOID, arguments)
    name = target.name if isinstance(target, Register) else "_"
    # The rank has 32 bits whatever the width of the address.
    result = "b32" if instruction.opcode == "getctarank" else f"b{type_[1:]}"
    if instruction.opcode == CLUSTER_ADDRESS:
        result = {"generic": "b64", "shared": f"b{type_[1:]}", "inside": "pred", "leader": "b32"}[
            instruction.modifiers[0]
        ]
    for part in e.result_parts(name):
        found = load_lanes(b, e.context, Warp.VALUES.element(2 * WARP_SIZE + part * e.lanes), e.lanes)
        if result == "pred":
            found = b.icmp_unsigned("!=", found, t.splat(b, i64(0), e.lanes))
        elif result == "b32":
            found = b.trunc(found, ir.VectorType(I32, e.lanes))
        e.write(name, part, found, result)


def _wide(e: Emitter, value: Value) -> Value:
    wide = ir.VectorType(I64, e.lanes)
    return value if value.type == wide else e.builder.zext(value, wide)
