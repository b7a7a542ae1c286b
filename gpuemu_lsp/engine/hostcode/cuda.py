"""Functions of CUDA that describe the device, and those that find a kernel by its name.

The device is an A100, one that programs may well run on. A kernel of a module is launched by ``cuLaunchKernel`` after
``cuModuleGetFunction(&function, module, "kernel")``, and the module may have been compiled by NVRTC, or by nvcc from a
file that this program does not include.
"""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.hostcode.interpreter import Handler
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.type_names import function_of_name
from gpuemu_lsp.engine.hostcode.values import (
    HostFunctionName,
    Lvalue,
    Pointer,
    RecordValue,
    StringValue,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, number

COMPILED = {"n_regs": 64, "n_spills": 0, "shared": 16 * 1024}
"""Attributes of a compiled kernel of Triton, from which persistent kernels compute how many blocks to launch."""

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
_MODULE = "compiled module"
_LOOKUPS = ("cuModuleGetFunction", "cuLibraryGetKernel", "cudaLibraryGetKernel")
"""Functions that return the kernel of a name: its place, the module, the name."""


def _properties(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
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
        run.assign(values[0], RecordValue("cudaDeviceProp", fields))
    return ZERO


def _occupancy(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Assign what an occupancy of two blocks of 256 threads gives: other kernels and devices have others."""
    if "PotentialBlockSize" in name:
        given = [_MULTIPROCESSORS * 2, 256]
    else:
        given = [2]
    for place, value in zip(values, given, strict=False):
        if isinstance(place, Lvalue):
            run.assign(place, number(value))
    return ZERO


def _device_count(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Lvalue):
        run.assign(values[0], number(run.assumptions.devices))
    return ZERO


def _peer_access(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Lvalue):
        run.assign(values[0], ONE)
    return ZERO


def _attribute(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Assign an attribute of the device, which is an enumerator; one that is not in the table is not known."""
    if len(values) >= 2 and isinstance(values[0], Lvalue):
        known = values[1].text if isinstance(values[1], StringValue) else ""
        given = _ATTRIBUTES.get(known.removeprefix("cudaDevAttr").removeprefix("CU_DEVICE_ATTRIBUTE_"))
        run.assign(values[0], run.unknown("attribute", "computed") if given is None else number(given))
    return ZERO


def _described(**attributes: int) -> Handler:
    """Return a function whose result has some attributes."""
    fields: dict[str, Value] = {name: number(value) for name, value in attributes.items()}
    return lambda run, values, template, name: RecordValue("device properties", fields)


def _device_properties(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return the properties of the device as PyTorch names them, or as Triton's driver does."""
    driver = _described(
        multiprocessor_count=_MULTIPROCESSORS, max_num_regs=65536, max_shared_mem=163 * 1024, warpSize=32
    )
    library = _described(multi_processor_count=_MULTIPROCESSORS, major=8, minor=0, warp_size=32)
    return (driver if "driver" in name else library)(run, values, template, name)


def _target(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    backend = StringValue("cuda")
    return RecordValue("device properties", {"backend": backend, "arch": number(80), "warp_size": number(32)})


DEVICE_FUNCTIONS: dict[str, Handler] = {
    "get_device_properties": _device_properties,
    "get_device_capability": lambda run, values, template, name: RecordValue("list", {"[0]": number(8), "[1]": ZERO}),
    "get_current_target": _target,
    **dict.fromkeys(
        ("is_available", "is_bf16_supported"), lambda run, values, template, name: Condition("cuda" in name or None)
    ),
    "cudaGetDeviceProperties": _properties,
    **dict.fromkeys(("cudaGetDeviceCount", "cuDeviceGetCount"), _device_count),
    **dict.fromkeys(("cudaDeviceCanAccessPeer", "cuDeviceCanAccessPeer"), _peer_access),
    **dict.fromkeys(("cudaDeviceGetAttribute", "cuDeviceGetAttribute"), _attribute),
    **dict.fromkeys(_OCCUPANCY, _occupancy),
}


def _lookup(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 3 and isinstance(values[0], Lvalue):
        run.assign(values[0], _named_kernel(values[2]))
    return ZERO


def _named_kernel(value: Value) -> Value:
    """Return the kernel that a string names, with its template arguments."""
    named = function_of_name(value.text) if isinstance(value, StringValue) else None
    return HostFunctionName(*named) if named is not None else Unknown()


def _compiled(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return what CuPy or PyCUDA compiles from a string: the kernel of a name, or a module."""
    kernel = _named_kernel(values[0]) if values else Unknown()
    return replace(kernel, called=True) if isinstance(kernel, HostFunctionName) else RecordValue(_MODULE)


def get_function(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    """Return the kernel of a name in a module that was compiled from a string."""
    is_module = isinstance(owner, RecordValue) and owner.type == _MODULE
    return _compiled(run, values, template, "") if is_module and values else None


def _lowered_name(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Keep the name expression in place of its mangled name."""
    if len(values) >= 3 and isinstance(values[2], Lvalue):
        run.assign(values[2], values[1])
    return ZERO


def _function_of_kernel(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 2 and isinstance(values[0], Lvalue):
        run.assign(values[0], values[1])
    return ZERO


NAMED_KERNELS: dict[str, Handler] = {
    **dict.fromkeys(_LOOKUPS, _lookup),
    "nvrtcGetLoweredName": _lowered_name,
    "cuKernelGetFunction": _function_of_kernel,
    **dict.fromkeys(("RawKernel", "RawModule", "SourceModule"), _compiled),
}
