"""Functions of the device's library, which is loaded before PyTorch."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.runtime.python_process import TOOLKIT_VARIABLE
from gpuemu_lsp.engine.runtime.torch_device import LIBRARY

_MEMORY_COUNTERS = (
    *("bytes", "peak_bytes", "allocated_bytes", "freed_bytes"),
    *("count", "peak_count", "allocated", "freed", "failed"),
)
"""In the order of ``gpuemu_torch_memory_counters``."""


def is_built() -> bool:
    """Return whether this program's toolkit has the device: not where PyTorch cannot have it."""
    return _path().exists()


def _path() -> Path:
    return Path(os.environ[TOOLKIT_VARIABLE], "lib64", LIBRARY)


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """Return the library, whose symbols PyTorch and extensions see.

    Raises
    ------
    OSError
        If it cannot be loaded.
    """
    native = ctypes.CDLL(str(_path()), ctypes.RTLD_GLOBAL)
    native.gpuemu_torch_current_stream.restype = ctypes.c_int64
    native.gpuemu_torch_set_stream.argtypes = [ctypes.c_int64]
    native.gpuemuUnsupported.argtypes = [ctypes.c_char_p]
    return native


def default_generator() -> Any:
    """Return the generator of the device as PyTorch's object, None if this version cannot make it."""
    function = ctypes.PyDLL(library()._name).gpuemu_torch_default_generator
    function.restype = ctypes.c_void_p
    if not library().gpuemu_torch_default_generator:
        return None
    function.restype = ctypes.py_object
    try:
        return function()
    except ValueError:
        return None


def synchronize() -> str | None:
    """Wait for all work; return the text of the error that it has met, None for none."""
    error = library().gpuemu_torch_synchronize()
    if not error:
        return None
    text = library().cudaGetErrorString
    text.restype = ctypes.c_char_p
    return str(text(error).decode())


def attribute(number: int) -> int:
    """Return an attribute of the device by its number in ``cudaDeviceAttr``."""
    value = ctypes.c_int()
    library().cudaDeviceGetAttribute(ctypes.byref(value), number, 0)
    return value.value


def total_memory() -> int:
    """Return the bytes of device memory, also in a process that may not use it."""
    total = ctypes.c_size_t()
    library().cuDeviceTotalMem_v2(ctypes.byref(total), 0)
    return total.value


def memory() -> tuple[int, int]:
    """Return the bytes of device memory that are free, and all."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    library().cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def memory_counters() -> dict[str, int]:
    """Return the counters of the allocator by name."""
    values = (ctypes.c_int64 * len(_MEMORY_COUNTERS))()
    library().gpuemu_torch_memory_counters(values)
    return dict(zip(_MEMORY_COUNTERS, values, strict=True))


def elapsed_milliseconds(start: int, end: int) -> float | None:
    """Return the time between two events, which the program has recorded; None if it has not."""
    elapsed = ctypes.c_float()
    error = library().cudaEventElapsedTime(ctypes.byref(elapsed), ctypes.c_void_p(start), ctypes.c_void_p(end))
    return None if error else elapsed.value


@contextmanager
def launches_skipped() -> Iterator[None]:
    """Let launches in the body have no effect, and let nothing be reported."""
    library().gpuemuSkipLaunches(1)
    try:
        yield
    finally:
        library().gpuemuSkipLaunches(0)


@contextmanager
def launches_followed() -> Iterator[None]:
    """Follow the integer arithmetic of launches in the body and make none: large tensors have no contents there."""
    library().gpuemu_torch_follow_launches(1)
    try:
        yield
    finally:
        library().gpuemu_torch_follow_launches(0)


def unsupported(what: str) -> None:
    """Put into the report of the run that something is not emulated."""
    library().gpuemuUnsupported(what.encode())
