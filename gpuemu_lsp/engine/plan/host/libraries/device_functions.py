"""Functions of the CUDA runtime that describe the device: an A100, one that programs may well run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gpuemu_lsp.engine.plan.host.machine import Machine
from gpuemu_lsp.engine.plan.host.values import Lvalue, RecordValue, StringValue, Value
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, number

_Function: TypeAlias = "Callable[[Machine, list[Value], tuple[str, ...], str], Value]"
_MULTIPROCESSORS = 108
_ATTRIBUTES = {
    "MultiProcessorCount": _MULTIPROCESSORS, "MULTIPROCESSOR_COUNT": _MULTIPROCESSORS, "WarpSize": 32, "WARP_SIZE": 32,
    "MaxThreadsPerBlock": 1024, "MAX_THREADS_PER_BLOCK": 1024, "CooperativeLaunch": 1, "COOPERATIVE_LAUNCH": 1,
    "ComputeCapabilityMajor": 8, "COMPUTE_CAPABILITY_MAJOR": 8, "ComputeCapabilityMinor": 0,
    "COMPUTE_CAPABILITY_MINOR": 0, "MaxSharedMemoryPerBlock": 49152, "MAX_SHARED_MEMORY_PER_BLOCK": 49152,
    "MaxSharedMemoryPerBlockOptin": 166912, "MaxSharedMemoryPerMultiprocessor": 167936,
    "MaxThreadsPerMultiProcessor": 2048, "MaxRegistersPerBlock": 65536, "ConcurrentManagedAccess": 1,
    "ManagedMemory": 1, "MemoryPoolsSupported": 1, "CanMapHostMemory": 1, "UnifiedAddressing": 1, "Integrated": 0,
}  # fmt: skip
"""Attributes of the device, by the end of the enumerator's name."""
_OCCUPANCY = (
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cudaOccupancyMaxPotentialBlockSize",
    "cudaOccupancyMaxPotentialBlockSizeVariableSMem",
)


def _properties(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Lvalue):
        fields: dict[str, Value] = {
            "maxThreadsPerBlock": number(1024), "warpSize": number(32), "multiProcessorCount": number(_MULTIPROCESSORS),
            "major": number(8), "minor": ZERO, "sharedMemPerBlock": number(49152), "maxGridSize": RecordValue("array"),
            "sharedMemPerBlockOptin": number(166912), "sharedMemPerMultiprocessor": number(167936),
            "maxThreadsPerMultiProcessor": number(2048), "regsPerBlock": number(65536),
            "cooperativeLaunch": ONE, "managedMemory": ONE, "canMapHostMemory": ONE, "integrated": ZERO,
            "unifiedAddressing": ONE, "concurrentManagedAccess": ONE, "asyncEngineCount": number(3),
            "computeMode": ZERO, "memoryPoolsSupported": ONE,
        }  # fmt: skip
        machine.assign(values[0], RecordValue("cudaDeviceProp", fields))
    return ZERO


def _occupancy(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Assign what an occupancy of two blocks of 256 threads gives: other kernels and devices have others."""
    if "PotentialBlockSize" in name:
        given = [_MULTIPROCESSORS * 2, 256]
    else:
        given = [2]
    for place, value in zip(values, given, strict=False):
        if isinstance(place, Lvalue):
            machine.assign(place, number(value))
    return ZERO


def _device_count(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Lvalue):
        machine.assign(values[0], number(machine.device_count))
    return ZERO


def _peer_access(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Lvalue):
        machine.assign(values[0], ONE)
    return ZERO


def _attribute(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Assign an attribute of the device, which is an enumerator; one that is not in the table is not known."""
    if len(values) >= 2 and isinstance(values[0], Lvalue):
        known = values[1].text if isinstance(values[1], StringValue) else ""
        given = _ATTRIBUTES.get(known.removeprefix("cudaDevAttr").removeprefix("CU_DEVICE_ATTRIBUTE_"))
        machine.assign(values[0], machine.unknown("attribute", "computed") if given is None else number(given))
    return ZERO


DEVICE_FUNCTIONS: dict[str, _Function] = {
    "cudaGetDeviceProperties": _properties,
    **dict.fromkeys(("cudaGetDeviceCount", "cuDeviceGetCount"), _device_count),
    **dict.fromkeys(("cudaDeviceCanAccessPeer", "cuDeviceCanAccessPeer"), _peer_access),
    **dict.fromkeys(("cudaDeviceGetAttribute", "cuDeviceGetAttribute"), _attribute),
    **dict.fromkeys(_OCCUPANCY, _occupancy),
}
