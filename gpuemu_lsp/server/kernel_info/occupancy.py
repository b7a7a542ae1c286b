"""Theoretical occupancy: resident warps per multiprocessor and their limiting resource.

Limits per compute capability are those of the CUDA C++ Programming Guide, "Compute Capabilities" (technical
specifications); registers are allocated per warp in units of 256, to warps in groups of four.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.compile.model import ResourceUsage

_REGISTERS = 65536
_REGISTER_UNIT = 256
_WARP_GROUP = 4
_WARP = 32


@dataclass(frozen=True, slots=True)
class _Multiprocessor:
    """Limits of one multiprocessor. Shared memory in bytes; the system reserves ``reserved`` bytes of each block's."""

    threads: int
    blocks: int
    shared: int
    granularity: int = 128
    reserved: int = 1024


_KIB = 1024
_LIMITS = {
    "sm_70": _Multiprocessor(2048, 32, 96 * _KIB, 256, 0),
    "sm_75": _Multiprocessor(1024, 16, 64 * _KIB, 256, 0),
    "sm_80": _Multiprocessor(2048, 32, 164 * _KIB),
    "sm_86": _Multiprocessor(1536, 16, 100 * _KIB),
    "sm_87": _Multiprocessor(1536, 16, 164 * _KIB),
    "sm_89": _Multiprocessor(1536, 24, 100 * _KIB),
    "sm_90": _Multiprocessor(2048, 32, 228 * _KIB),
}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident blocks and warps per multiprocessor, their share of the maximum, and the limiting resource."""

    blocks: int
    warps: int
    share: float
    limit: str


def occupancy(arch: str, usage: ResourceUsage, threads: int, dynamic_shared: int = 0) -> Occupancy | None:
    """Return a kernel's theoretical occupancy; None for an unknown architecture or an impossible block size.

    Parameters
    ----------
    threads
        Threads per block.
    dynamic_shared
        Dynamic shared memory per block, in bytes.
    """
    sm = _LIMITS.get(arch.rstrip("af"))
    if sm is None or not 1 <= threads <= 1024:
        return None
    warps = -(-threads // _WARP)
    max_warps = sm.threads // _WARP
    limits = {"warps": max_warps // warps, "blocks": sm.blocks}
    if usage.registers:
        # Rounded up to the allocation unit of a warp, and down to whole groups of warps.
        per_warp = -(-usage.registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
        limits["registers"] = _REGISTERS // per_warp // _WARP_GROUP * _WARP_GROUP // warps
    shared = usage.static_shared_bytes + dynamic_shared
    if shared:
        per_block = -(-(shared + sm.reserved) // sm.granularity) * sm.granularity
        limits["shared memory"] = sm.shared // per_block
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    full = blocks * warps == max_warps
    return Occupancy(blocks, blocks * warps, blocks * warps / max_warps, "nothing" if full else limit)
