"""numba-cuda's only device: its driver is that of the emulator, its kernels are PTX, its launches go to a session."""

from __future__ import annotations

import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import numba.cuda
import numpy as np
from cuda.bindings import driver as binding
from numba.cuda import codegen, dispatcher
from numba.cuda.core.errors import NumbaDebugInfoWarning, NumbaError
from numba.cuda.cudadrv import devicearray, devices, nvrtc
from numba.cuda.cudadrv import driver as numba_driver

from gpuemu.numba.arguments import Slot, slots_of
from gpuemu.numba.driver_api import MEMORY_BYTES, EmulatedDriverApi
from gpuemu.numba.kernels import MAX_THREADS, EmulatedFunction, functions_in
from gpuemu.numba.linking import NvrtcProgram
from gpuemu.numba.memory import DeviceMemory
from gpuemu.numba.shared_arrays import shared_arrays
from gpuemu.replaced_attributes import replaced

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LaunchedFunction:
    """The Python function of a launch: its name, and those of its parameters, ``slots``, and ``shared`` arrays.

    ``copies`` is True for numba's kernel that transposes an array.
    """

    name: str
    slots: list[Slot] = field(default_factory=list)
    shared: tuple[str, ...] = ()
    copies: bool = False


@dataclass(frozen=True, slots=True)
class NumbaLaunch:
    """A launch as numba-cuda asks for it.

    ``values`` are the kernel's parameters as numba-cuda passes them to the driver. ``shared_bytes`` is the size of
    dynamic shared memory. ``cooperative`` is True for a kernel with barriers of the grid.
    """

    function: EmulatedFunction
    source: LaunchedFunction
    grid: Dim3
    block: Dim3
    shared_bytes: int
    values: tuple[Any, ...]
    cooperative: bool = False


RunLaunch = Callable[[NumbaLaunch, DeviceMemory], object]


@contextmanager
def emulated_device(arch: str, run: RunLaunch) -> Iterator[EmulatedDriverApi]:
    """Let numba-cuda find one device of an architecture such as ``sm_80``, whose launches go to ``run``."""
    device = _device(arch)
    api, driver = device.api, numba_driver.driver
    with ExitStack() as stack:
        for name, function in api.functions().items():
            stack.enter_context(replaced(driver, name, function))
        state = {"is_initialized": True, "initialization_error": None, "devices": device.devices, "pid": None}
        for name, value in state.items():
            stack.enter_context(replaced(driver, name, value))
        stack.enter_context(replaced(numba_driver, "_logger", numba_driver.make_logger()))
        stack.enter_context(replaced(numba_driver, "ExperimentalDevice", lambda number: _core_device(api)))
        stack.enter_context(replaced(numba_driver, "_to_core_stream", _stream))
        stack.enter_context(replaced(devicearray, "_to_strided_memory_view", _device_view))
        stack.enter_context(replaced(devicearray, "_make_strided_memory_view", _host_view))
        stack.enter_context(replaced(codegen.CUDACodeLibrary, "get_cufunc", functions_in(api.memory)))
        stack.enter_context(replaced(codegen.CUDACodeLibrary, "_ensure_cc", _portable_cc(codegen.CUDACodeLibrary)))
        stack.enter_context(replaced(codegen.JITCUDACodegen, "magic_tuple", _cache_key(codegen.JITCUDACodegen)))
        stack.enter_context(replaced(nvrtc, "Program", NvrtcProgram))
        stack.enter_context(replaced(dispatcher, "compile_cuda", _with_lines(dispatcher.compile_cuda)))
        stack.enter_context(replaced(dispatcher, "LaunchConfig", SimpleNamespace))
        stack.enter_context(replaced(dispatcher._Kernel, "launch", _labelled(dispatcher._Kernel.launch)))
        stack.enter_context(replaced(dispatcher, "launch", _Launcher(api.memory, run)))
        for name in _FINALIZERS:
            stack.enter_context(replaced(numba_driver, name, _detachable(getattr(numba_driver, name), api)))
        runtime = devices._runtime
        stack.enter_context(replaced(runtime, "gpus", device.gpus))
        stack.enter_context(replaced(devices, "gpus", device.gpus))
        stack.enter_context(replaced(numba.cuda, "gpus", device.gpus))
        stack.enter_context(replaced(runtime, "_tls", device.contexts))
        stack.enter_context(replaced(numba_driver._ActiveContext, "_tls_cache", device.active))
        api.active = True
        stack.callback(setattr, api, "active", False)
        yield api


@dataclass(frozen=True, slots=True)
class _Device:
    """A device with the objects that numba-cuda keeps about it: they outlive a session, as arrays do."""

    api: EmulatedDriverApi
    gpus: Any = field(default_factory=devices._DeviceList)
    devices: dict[int, Any] = field(default_factory=dict)
    contexts: Any = field(default_factory=threading.local)
    active: Any = field(default_factory=threading.local)


_MEMORY = DeviceMemory(MEMORY_BYTES)


@cache
def _device(arch: str) -> _Device:
    return _Device(EmulatedDriverApi(divmod(int(re.sub(r"\D", "", arch)), 10), _MEMORY))


_FINALIZERS = ("_alloc_finalizer", "_hostalloc_finalizer", "_pin_finalizer", "_event_finalizer", "_stream_finalizer")
"""Functions of numba-cuda that return what is called when a resource is no longer referenced."""


def _detachable(factory: Callable[..., Any], api: EmulatedDriverApi) -> Callable[..., Any]:
    def make(*args: Any) -> Callable[[], None]:
        finalizer = factory(*args)
        pointer = args[1]

        def finalize() -> None:
            """Release a resource; one that outlives its session must not be given to another driver."""
            if api.active:
                finalizer()
            else:
                api.memory.free(int(pointer))

        return finalize

    return make


def _core_device(api: EmulatedDriverApi) -> Any:
    """Return the part of cuda.core's device object that numba-cuda uses."""
    capability = api.capability
    return SimpleNamespace(
        device_id=0,
        compute_capability=capability,
        name="gpuemu",
        uuid="00000000-0000-0000-0000-000000000000",
        set_current=api.make_current,
        context=SimpleNamespace(handle=binding.CUcontext(api.make_current())),
    )


def _stream(stream: Any) -> Any:
    """Return a stream object for a handle: all of them are in order."""
    if isinstance(stream, numba_driver.Stream):
        return stream
    return numba_driver.Stream(binding.CUstream(int(stream or 0)))


class _OwningView:
    """Arguments of a launch in device memory: what numba-cuda reads of an array, keeping the array alive."""

    __slots__ = ("_layout", "dtype", "owner", "ptr", "shape", "size")

    def __init__(self, owner: Any) -> None:
        view = owner._strided_memory_view_shim
        self.owner = owner
        self.ptr, self.shape, self.dtype = view.ptr, view.shape, view.dtype
        self.size, self._layout = view.size, view._layout


def _device_view(obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False) -> tuple[Any, bool]:
    """Return the device array of an argument, and whether it is a copy of a host array that is written back."""
    array, new = devicearray.auto_device(obj, copy=copy, user_explicit=user_explicit)
    return _OwningView(array), new


def _host_view(obj: Any, *, stream_ptr: Any) -> Any:
    """Return the address of a host array, to which the results of a launch are written back."""
    return SimpleNamespace(ptr=numba_driver.host_pointer(obj, readonly=True))


def _portable_cc(owner: Any) -> Callable[..., Any]:
    original = owner._ensure_cc

    def ensure(self: Any, cc: Any) -> Any:
        """Return the compute capability without the suffix ``a`` of architecture-specific instructions."""
        found = original(self, cc)
        return found[:2]

    return ensure


def _with_lines(compile_cuda: Callable[..., Any]) -> Callable[..., Any]:
    def compile_with_lines(*args: Any, **kwargs: Any) -> Any:
        """Compile with line information, so that findings have a place; generated code stays the same."""
        if kwargs.get("lineinfo") or kwargs.get("debug"):
            return compile_cuda(*args, **kwargs)
        try:
            with warnings.catch_warnings():  # the program has not asked for line information
                warnings.simplefilter("ignore", NumbaDebugInfoWarning)
                return compile_cuda(*args, **{**kwargs, "lineinfo": True})
        except NumbaError:
            raise
        except Exception:
            # numba-cuda cannot describe some types, such as empty tuples: findings then have the line of the launch.
            return compile_cuda(*args, **kwargs)

    return compile_with_lines


def _cache_key(owner: Any) -> Callable[[Any], tuple[Any, ...]]:
    original = owner.magic_tuple

    def key(self: Any) -> tuple[Any, ...]:
        """Return the key of kernels on disk: those of a GPU have no line information."""
        return (*original(self), "gpuemu")

    return key


class _Launched(threading.local):
    """The functions that a thread is launching."""

    def __init__(self) -> None:
        self.stack: list[LaunchedFunction] = []


_launched = _Launched()


def _labelled(launch: Callable[..., Any]) -> Callable[..., Any]:
    def labelled(self: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
        """Launch, with the names of the kernel's parameters for messages."""
        function = getattr(self, "py_func", None)
        names = list(inspect.signature(function).parameters) if function is not None else []
        kinds = self.argument_types
        names += [f"argument {index}" for index in range(len(names), len(kinds))]
        name = function.__name__ if function is not None else self.entry_name
        copies = getattr(function, "__module__", "") == "numba.cuda.kernels.transpose"
        slots = slots_of(names[: len(kinds)], kinds)
        _launched.stack.append(LaunchedFunction(name, slots, shared_arrays(function), copies))
        try:
            return launch(self, args, *rest, **kwargs)
        finally:
            _launched.stack.pop()

    return labelled


class _Launcher:
    """Stands for cuda.core's function ``launch``."""

    def __init__(self, memory: DeviceMemory, run: RunLaunch) -> None:
        self._memory, self._run = memory, run

    def __call__(self, stream: Any, config: Any, kernel: EmulatedFunction, *values: Any) -> None:
        grid, block = _dim3(config.grid), _dim3(config.block)
        if min(*grid, *block) < 1 or block[0] * block[1] * block[2] > MAX_THREADS or block[2] > 64:
            code = binding.CUresult.CUDA_ERROR_INVALID_VALUE
            raise numba_driver.CudaAPIError(code, f"Call to cuLaunchKernelEx results in {code.name}")
        source = _launched.stack[-1] if _launched.stack else LaunchedFunction(kernel.name)
        cooperative = bool(config.is_cooperative)
        launch = NumbaLaunch(kernel, source, grid, block, int(config.shmem_size), values, cooperative)
        self._run(launch, self._memory)


def _dim3(value: Any) -> Dim3:
    sizes = tuple(int(size) for size in np.atleast_1d(value))
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
