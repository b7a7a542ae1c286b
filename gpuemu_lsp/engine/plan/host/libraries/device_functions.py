"""Functions of the CUDA runtime that describe the device: an A100, one that programs may well run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gpuemu_lsp.engine.plan.host.machine import Machine
from gpuemu_lsp.engine.plan.host.symbolic import ONE, ZERO, number
from gpuemu_lsp.engine.plan.host.values import Lvalue, RecordValue, Value

_Function: TypeAlias = "Callable[[Machine, list[Value], tuple[str, ...], str], Value]"
_MULTIPROCESSORS = 108
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
        machine.assign(values[0], ONE)
    return ZERO


DEVICE_FUNCTIONS: dict[str, _Function] = {
    "cudaGetDeviceProperties": _properties,
    "cudaGetDeviceCount": _device_count,
    **dict.fromkeys(_OCCUPANCY, _occupancy),
}
