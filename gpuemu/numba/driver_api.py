"""The functions of the CUDA driver API that numba-cuda calls, on a device that is the emulator.

numba-cuda reaches the driver through one object, whose attributes are the functions by name: they return a result or
raise an error. Its contexts, memory managers, streams and events are written on top of them and stay as they are.
Work is done when it is asked for, so that streams have nothing to wait for.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver as binding
from numba.cuda.cudadrv.driver import CudaAPIError

from gpuemu.numba.memory import Allocation, DeviceMemory

_ERRORS = binding.CUresult
_ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65_535,
    "MAX_GRID_DIM_Z": 65_535,
    "MAX_SHARED_MEMORY_PER_BLOCK": 49_152,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 166_912,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 167_936,
    "TOTAL_CONSTANT_MEMORY": 65_536,
    "WARP_SIZE": 32,
    "MAX_REGISTERS_PER_BLOCK": 65_536,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65_536,
    "MULTIPROCESSOR_COUNT": 108,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "CLOCK_RATE": 1_410_000,
    "MEMORY_CLOCK_RATE": 1_215_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 5120,
    "L2_CACHE_SIZE": 41_943_040,
    "CAN_MAP_HOST_MEMORY": 1,
    "UNIFIED_ADDRESSING": 1,
    "MANAGED_MEMORY": 1,
    "CONCURRENT_MANAGED_ACCESS": 1,
    "COOPERATIVE_LAUNCH": 1,
    "CONCURRENT_KERNELS": 1,
    "ASYNC_ENGINE_COUNT": 1,
}
"""Attributes of an A100 (CUDA C++ programming guide, compute capabilities); all others are 0."""
MEMORY_BYTES = 1 << 34
_CONTEXT = 1
"""Handle of the only context."""


class _ThreadState(threading.local):
    """The stack of current contexts, of which each thread has its own."""

    def __init__(self) -> None:
        self.contexts: list[int] = []


class EmulatedDriverApi:
    """The driver API of one device with the given compute capability. ``active`` is True inside a session."""

    def __init__(self, capability: tuple[int, int], memory: DeviceMemory) -> None:
        self.memory = memory
        self.capability = capability
        self.active = False
        self._thread = _ThreadState()
        self._handles = itertools.count(0x1000)
        self._recorded: dict[int, float] = {}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions by name. All others stay unavailable."""
        return {
            "cuDriverGetVersion": lambda: int(binding.CUDA_VERSION),
            "cuDeviceGetCount": lambda: 1,
            "cuDeviceGetAttribute": self._attribute,
            "cuDeviceCanAccessPeer": lambda device, peer: 0,
            "cuDevicePrimaryCtxRelease": _nothing,
            "cuDevicePrimaryCtxReset": lambda device: self.memory.clear(),
            "cuCtxGetCurrent": lambda: binding.CUcontext(self._thread.contexts[-1] if self._thread.contexts else 0),
            "cuCtxGetDevice": lambda: 0,
            "cuCtxPushCurrent": lambda context: self._thread.contexts.append(int(context)),
            "cuCtxPopCurrent": self._pop_context,
            "cuCtxSynchronize": _nothing,
            "cuMemGetInfo": lambda: (self.memory.total - self.memory.used, self.memory.total),
            "cuMemAlloc": lambda size: self._allocate(size),
            "cuMemAllocManaged": lambda size, flags: self._allocate(size, host_writes=True),
            "cuMemHostAlloc": lambda size, flags: int(self._allocate(size, host_writes=True)),
            "cuMemFree": self._free,
            "cuMemFreeHost": self._free,
            "cuMemHostRegister": lambda address, size, flags: self._register(address, size),
            "cuMemHostUnregister": self._free,
            "cuMemHostGetDevicePointer": lambda address, flags: binding.CUdeviceptr(int(address)),
            "cuPointerGetAttribute": lambda attribute, pointer: binding.CUdeviceptr(int(pointer)),
            "cuMemGetAddressRange": self._address_range,
            "cuMemcpyHtoD": self._to_device,
            "cuMemcpyHtoDAsync": self._to_device,
            "cuMemcpyDtoH": self._to_host,
            "cuMemcpyDtoHAsync": self._to_host,
            "cuMemcpyDtoD": self._between,
            "cuMemcpyDtoDAsync": self._between,
            "cuMemsetD8": self._set,
            "cuMemsetD8Async": self._set,
            "cuStreamCreate": lambda flags: binding.CUstream(next(self._handles)),
            "cuStreamDestroy": _nothing,
            "cuStreamSynchronize": _nothing,
            "cuStreamWaitEvent": _nothing,
            "cuEventCreate": lambda flags: binding.CUevent(next(self._handles)),
            "cuEventDestroy": _nothing,
            "cuEventQuery": _nothing,
            "cuEventRecord": self._record,
            "cuEventSynchronize": _nothing,
            "cuEventElapsedTime": self._elapsed,
            "cuKernelSetCacheConfig": _nothing,
            "cuKernelSetAttribute": _nothing,
            "cuLibraryUnload": _nothing,
            "cuOccupancyMaxActiveBlocksPerMultiprocessor": _occupancy,
            "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": _occupancy,
            "cuProfilerStart": _nothing,
            "cuProfilerStop": _nothing,
        }

    def make_current(self) -> Any:
        """Make the context current, as cuda.core does when a program sets the device; return its handle."""
        self._thread.contexts.append(_CONTEXT)
        return binding.CUcontext(_CONTEXT)

    def _attribute(self, attribute: Any, device: int) -> int:
        name = attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        if name.startswith("COMPUTE_CAPABILITY_M"):
            return self.capability[name.endswith("MINOR")]
        return _ATTRIBUTES.get(name, 0)

    def _pop_context(self) -> Any:
        if not self._thread.contexts:
            raise _error("cuCtxPopCurrent", _ERRORS.CUDA_ERROR_INVALID_CONTEXT)
        return binding.CUcontext(self._thread.contexts.pop())

    def _allocate(self, size: int, *, host_writes: bool = False) -> Any:
        if size <= 0:
            raise _error("cuMemAlloc", _ERRORS.CUDA_ERROR_INVALID_VALUE)
        if size > self.memory.total - self.memory.used:
            raise _error("cuMemAlloc", _ERRORS.CUDA_ERROR_OUT_OF_MEMORY)
        return binding.CUdeviceptr(self.memory.allocate(size, host_writes=host_writes).address)

    def _register(self, address: Any, size: int) -> None:
        self.memory.register(int(address), size)

    def _free(self, pointer: Any) -> None:
        if not self.memory.free(int(pointer)):
            raise _error("cuMemFree", _ERRORS.CUDA_ERROR_INVALID_VALUE)

    def _address_range(self, pointer: Any) -> tuple[Any, int]:
        allocation, _ = self._range("cuMemGetAddressRange", pointer, 1)
        return binding.CUdeviceptr(allocation.address), allocation.size

    def _to_device(self, target: Any, source: Any, size: int, stream: Any = 0) -> None:
        allocation, offset = self._range("cuMemcpyHtoD", target, size)
        ctypes.memmove(allocation.address + offset, int(source), size)
        allocation.set_initialized(offset, size)

    def _to_host(self, target: Any, source: Any, size: int, stream: Any = 0) -> None:
        allocation, offset = self._range("cuMemcpyDtoH", source, size)
        ctypes.memmove(int(target), allocation.address + offset, size)

    def _between(self, target: Any, source: Any, size: int, stream: Any = 0) -> None:
        to, at = self._range("cuMemcpyDtoD", target, size)
        origin, start = self._range("cuMemcpyDtoD", source, size)
        ctypes.memmove(to.address + at, origin.address + start, size)
        if to.initialized is not None:
            known = True if origin.initialized is None else origin.initialized[start : start + size].copy()
            to.initialized[at : at + size] = known

    def _set(self, target: Any, value: int, size: int, stream: Any = 0) -> None:
        allocation, offset = self._range("cuMemsetD8", target, size)
        allocation.data[offset : offset + size] = np.uint8(int(value) & 0xFF)
        allocation.set_initialized(offset, size)

    def _range(self, function: str, pointer: Any, size: int) -> tuple[Allocation, int]:
        """Return the allocation that holds ``size`` bytes from ``pointer``, and the offset in it."""
        allocation = self.memory.find(int(pointer))
        offset = int(pointer) - allocation.address if allocation is not None else 0
        if allocation is None or offset + size > allocation.size:
            raise _error(function, _ERRORS.CUDA_ERROR_INVALID_VALUE)
        return allocation, offset

    def _record(self, event: Any, stream: Any = 0) -> None:
        self._recorded[int(event)] = time.perf_counter()

    def _elapsed(self, start: Any, end: Any) -> float:
        """Return milliseconds of the emulator, which say nothing about a GPU."""
        if int(start) not in self._recorded or int(end) not in self._recorded:
            raise _error("cuEventElapsedTime", _ERRORS.CUDA_ERROR_INVALID_HANDLE)
        return (self._recorded[int(end)] - self._recorded[int(start)]) * 1e3


def _nothing(*_: Any) -> None:
    """Do nothing: the work is already done, or there is no resource behind the handle."""


def _occupancy(function: Any, threads: int, shared_bytes: int, flags: int = 0) -> int:
    """Return the resident blocks of a multiprocessor, limited by threads and shared memory."""
    by_threads = _ATTRIBUTES["MAX_THREADS_PER_MULTIPROCESSOR"] // max(int(threads), 1)
    by_shared = _ATTRIBUTES["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"] // max(int(shared_bytes), 1)
    return max(min(by_threads, by_shared, 32), 1)


def _error(function: str, code: Any) -> CudaAPIError:
    return CudaAPIError(code, f"Call to {function} results in {code.name}")
