"""Special registers (PTX ISA section 10)."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_pointer
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.registers import RegisterFile
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Register

_THREAD_FIELDS = {"%tid.x": Warp.TID_X, "%tid.y": Warp.TID_Y, "%tid.z": Warp.TID_Z}

_FIELDS = {
    "%ctaid.x": ("block", BlockRecord.X),
    "%ctaid.y": ("block", BlockRecord.Y),
    "%ctaid.z": ("block", BlockRecord.Z),
    "%ntid.x": ("launch", LaunchRecord.NTID_X),
    "%ntid.y": ("launch", LaunchRecord.NTID_Y),
    "%ntid.z": ("launch", LaunchRecord.NTID_Z),
    "%nctaid.x": ("launch", LaunchRecord.GRID_X),
    "%nctaid.y": ("launch", LaunchRecord.GRID_Y),
    "%nctaid.z": ("launch", LaunchRecord.GRID_Z),
    "%warpid": ("context", Warp.WARP_ID),
    "%nwarpid": ("launch", LaunchRecord.WARP_COUNT),
    "%dynamic_smem_size": ("launch", LaunchRecord.DYNAMIC_SHARED),
    "%total_smem_size": ("launch", LaunchRecord.TOTAL_SHARED),
    # A block that is launched without clusters is a cluster of its own (PTX ISA sections 10.12 to 10.18).
    "%clusterid.x": ("block", BlockRecord.CLUSTER_X),
    "%clusterid.y": ("block", BlockRecord.CLUSTER_Y),
    "%clusterid.z": ("block", BlockRecord.CLUSTER_Z),
    "%nclusterid.x": ("launch", LaunchRecord.CLUSTERS_X),
    "%nclusterid.y": ("launch", LaunchRecord.CLUSTERS_Y),
    "%nclusterid.z": ("launch", LaunchRecord.CLUSTERS_Z),
    "%cluster_ctaid.x": ("block", BlockRecord.CLUSTER_CTAID_X),
    "%cluster_ctaid.y": ("block", BlockRecord.CLUSTER_CTAID_Y),
    "%cluster_ctaid.z": ("block", BlockRecord.CLUSTER_CTAID_Z),
    "%cluster_nctaid.x": ("launch", LaunchRecord.CLUSTER_X),
    "%cluster_nctaid.y": ("launch", LaunchRecord.CLUSTER_Y),
    "%cluster_nctaid.z": ("launch", LaunchRecord.CLUSTER_Z),
    "%cluster_ctarank": ("block", BlockRecord.CLUSTER_RANK),
    "%cluster_nctarank": ("launch", LaunchRecord.CLUSTER_BLOCKS),
}

_FIXED = {
    "%nsmid": 1,
    "%smid": 0,
    "%nctaid.w": 1,
}

_ENVIRONMENT = tuple(f"%envreg{number}" for number in range(32))
"""Registers that the driver sets (section 10.24). Cooperative groups read the address of the grid's workspace there."""

_LANE_MASKS = {
    "eq": lambda lane: 1 << lane,
    "le": lambda lane: (2 << lane) - 1,
    "lt": lambda lane: (1 << lane) - 1,
    "ge": lambda lane: 0xFFFFFFFF & ~((1 << lane) - 1),
    "gt": lambda lane: 0xFFFFFFFF & ~((2 << lane) - 1),
}

SPECIAL_REGISTERS = frozenset(
    {*_THREAD_FIELDS, *_FIELDS, *_FIXED, *_ENVIRONMENT, "%laneid", "%gridid", "%clock", "%clock_hi", "%clock64",
     "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%tid.w", "%ntid.w", "%ctaid.w", "%is_explicit_cluster"}
    | {f"%lanemask_{kind}" for kind in _LANE_MASKS}
)  # fmt: skip
"""Supported special registers."""


def special_base(e: RegisterFile, name: str, part: int) -> Value:
    """Return the scalar base of a special register that is not varying."""
    b = e.builder
    if name in _THREAD_FIELDS:
        # Affine over the warp, or over each part: then its first lane holds the base.
        shape = e.shape(Register(name))
        lane = part * e.lanes if shape.per_part else 0
        return e.record_field(f"{name}+{lane}", "context", _THREAD_FIELDS[name].element(lane))
    if name == "%laneid":
        # Affine with stride 1: the shape adds the lane number.
        return i32(0)
    if name in _FIELDS:
        record, field = _FIELDS[name]
        return e.record_field(name, record, field)
    if name.startswith(("%clock", "%globaltimer")):
        now = _tick(e)
        return b.lshr(now, i64(32)) if name.endswith("_hi") else now
    if name == "%is_explicit_cluster":
        return b.icmp_unsigned("!=", e.launch(LaunchRecord.IS_CLUSTER), i32(0))
    if name in ("%envreg1", "%envreg2"):
        # Two 32-bit halves of a 64-bit address, the high one first.
        workspace = e.launch(LaunchRecord.GRID_WORKSPACE)
        return b.trunc(b.lshr(workspace, i64(32)) if name == "%envreg1" else workspace, I32)
    if name == "%gridid":
        return i64(1)
    if name.startswith("%lanemask"):
        return i32(0)
    return i32(_FIXED.get(name, 0))


def special_vector(e: RegisterFile, name: str, part: int) -> Value:
    """Return a special register of any shape as the vector of one part."""
    if name in _THREAD_FIELDS and e.shape(Register(name)).varying:
        return e.record_field(f"{name}/{part}", "context", _THREAD_FIELDS[name].element(part * e.lanes), lanes=e.lanes)
    if name.startswith("%lanemask_"):
        lanes = range(part * e.lanes, (part + 1) * e.lanes)
        return ir.Constant(ir.VectorType(I32, e.lanes), [_LANE_MASKS[name[-2:]](lane) for lane in lanes])
    # %laneid, and thread indices where they are affine.
    shape = e.shape(Register(name))
    return e.affine_vector(e.base_of_part(special_base(e, name, part), shape, part), shape.step)


def _tick(e: RegisterFile) -> Value:
    """Return a later time than all reads before.

    Clocks count reads and not cycles, so that results are reproducible; kernels that wait for a time still proceed.
    """
    b = e.builder
    pointer = t.at(b, load_pointer(b, e.context, Warp.LAUNCH), LaunchRecord.CLOCK)
    now = b.add(b.load(pointer, typ=I64), i64(16))
    b.store(now, pointer)
    return now
