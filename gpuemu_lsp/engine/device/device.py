"""Execution of one launch on a real GPU.

Every run loads the module again, so that ``__device__`` variables have their initial values, and owns its memory. A
fault makes the CUDA context permanently unusable; the worker then retires (:attr:`Device.poisoned`).
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuemu_lsp.engine.compile.machine_code import machine_code
from gpuemu_lsp.engine.device.driver import launch, with_driver_maps
from gpuemu_lsp.engine.device.errors import LAUNCH_REJECTED, fault
from gpuemu_lsp.engine.device.layout import (
    GUARD_BYTES,
    GuardedAllocation,
    GuardOverwrite,
    allocations,
    initial_content,
    overwrites,
    parameters,
)
from gpuemu_lsp.engine.execution import Access, Bytes, Event, Outcome, Request

_DEFAULT_SHARED_LIMIT = 48 * 1024
_OLDEST = (7, 0)
_NOT_RUN = "engine/not-executed"


def available() -> tuple[bool, str]:
    """Return whether a GPU can be used, and its name or the reason."""
    try:
        runtime = _cupy().runtime
        if runtime.getDeviceCount() < 1:
            return False, "no CUDA device"
        properties = runtime.getDeviceProperties(0)
    except ImportError as error:
        return False, f"CuPy is not installed ({error})"
    except RuntimeError as error:  # the base class of CuPy's errors
        return False, str(error)
    name = properties["name"].decode(errors="replace")
    capability = (int(properties["major"]), int(properties["minor"]))
    if capability < _OLDEST:
        return (
            False,
            f"{name} has compute capability {capability[0]}.{capability[1]}; {_OLDEST[0]}.{_OLDEST[1]} is needed",
        )
    return True, f"{name} (sm_{capability[0]}{capability[1]})"


@dataclass(slots=True)
class _Memory:
    """Device memory of one run: each allocation with its base address."""

    allocated: list[tuple[GuardedAllocation, int]]

    def addresses(self) -> dict[str, int]:
        return {
            buffer.name: base + start for allocation, base in self.allocated for buffer, start in allocation.members
        }


class Device:
    """Implements :class:`gpuemu_lsp.engine.execution.Executor` on the first CUDA device."""

    name = "gpu"

    def __init__(self) -> None:
        self.poisoned = False
        self._cuda = _cupy()
        self._cuda.runtime.setDevice(0)
        properties = self._cuda.runtime.getDeviceProperties(0)
        self._capability = (int(properties["major"]), int(properties["minor"]))

    def run(self, request: Request) -> Outcome:
        """Run one launch. Errors of the kernel are in the outcome and never raised."""
        if self.poisoned:
            message = "the GPU is unusable in this process after an earlier fault"
            return Outcome("failed", self.name, {}, events=(_event(_NOT_RUN, message),), counters={"poisoned": 1})
        if any(buffer.pointers for buffer in request.buffers):
            message = "arguments that hold addresses of others, as textures do, are for the emulator only"
            return Outcome("failed", self.name, {}, events=(_event(_NOT_RUN, message),))
        start = time.perf_counter()
        printed: list[str] = []
        try:
            with self._module(request) as function, self._memory(request) as memory:
                loaded = time.perf_counter()
                with _captured_stdout(printed):
                    self._launch(request, function, memory)
                buffers, found = self._collect(memory)
                done = time.perf_counter()
        except RuntimeError as error:
            return self._failure(error, "".join(printed))
        return Outcome(
            "completed",
            self.name,
            buffers,
            events=tuple(map(_overwrite_event, found)),
            printed="".join(printed),
            translate_ms=(loaded - start) * 1e3,
            execute_ms=(done - loaded) * 1e3,
        )

    @contextmanager
    def _module(self, request: Request) -> Iterator[int]:
        """Load the artifact: its cubin if this GPU can run it, else its PTX, which the driver compiles."""
        artifact = request.artifact
        cubin = machine_code(artifact) if runs_on(artifact.arch, self._capability) else b""
        module = self._cuda.driver.moduleLoadData(cubin or artifact.ptx.encode() + b"\0")
        try:
            yield self._cuda.driver.moduleGetFunction(module, request.entry)
        finally:
            if not self.poisoned:
                self._release(self._cuda.driver.moduleUnload, module)

    @contextmanager
    def _memory(self, request: Request) -> Iterator[_Memory]:
        memory = _Memory([])
        try:
            for allocation in allocations(request.arguments):
                content = initial_content(allocation)
                base = self._cuda.runtime.malloc(allocation.size)
                memory.allocated.append((allocation, base))
                self._copy(base, content.ctypes.data, allocation.size, self._cuda.runtime.memcpyHostToDevice)
            yield memory
        finally:
            for _, base in memory.allocated:
                self._release(self._cuda.runtime.free, base)

    def _launch(self, request: Request, function: int, memory: _Memory) -> None:
        driver = self._cuda.driver
        if request.shared_bytes > _DEFAULT_SHARED_LIMIT:
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function, attribute, request.shared_bytes)
        values = map(with_driver_maps, parameters(request.arguments, memory.addresses()))
        held = [ctypes.create_string_buffer(item, len(item)) for item in values]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*(ctypes.addressof(item) for item in held))
        # The workspace of a grid's barrier has an address in cooperative launches only.
        cooperative = "%envreg2" in request.artifact.ptx
        launch(function, pointers, request.grid, request.block, request.shared_bytes, request.cluster, cooperative)
        self._cuda.runtime.deviceSynchronize()

    def _collect(self, memory: _Memory) -> tuple[dict[str, Bytes], list[GuardOverwrite]]:
        """Copy the buffers back, and check their guards."""
        buffers: dict[str, Bytes] = {}
        found: list[GuardOverwrite] = []
        for allocation, base in memory.allocated:
            after = np.empty(allocation.size, np.uint8)
            self._copy(after.ctypes.data, base, allocation.size, self._cuda.runtime.memcpyDeviceToHost)
            found.extend(overwrites(allocation, after))
            for buffer, start in allocation.members:
                buffers[buffer.name] = after[start : start + buffer.data.size].copy()
        return buffers, found

    def _failure(self, error: RuntimeError, printed: str) -> Outcome:
        """Return the outcome of a CUDA error; every error except a rejected launch makes the context unusable."""
        status = int(getattr(error, "status", -1))
        self.poisoned = self.poisoned or status not in LAUNCH_REJECTED
        known = fault(status)
        event = _event(_NOT_RUN, str(error))
        if known is not None:
            event = replace(_event(known.rule, f"{known.message}: {error}"), cause=known.cause)
        return Outcome(
            known.status if known is not None else "failed",
            self.name,
            {},
            events=(event,),
            printed=printed,
            counters={"poisoned": int(self.poisoned), "cuda_status": status},
        )

    def _copy(self, to: int, source: int, size: int, kind: int) -> None:
        self._cuda.runtime.memcpy(to, source, size, kind)

    def _release(self, function: Any, *arguments: int) -> None:
        """Release a resource, ignoring errors: after a fault every call fails, and the fault has been reported."""
        try:
            function(*arguments)
        except RuntimeError:
            self.poisoned = True


def runs_on(arch: str, capability: tuple[int, int]) -> bool:
    """Return whether a cubin for ``arch`` runs on a device of compute capability ``capability``.

    Binary compatibility: same major version, minor version at least that of ``arch``; architecture-specific targets
    (``sm_90a``) on exactly that version (CUDA C++ programming guide, "Binary Compatibility").
    """
    number = arch.removeprefix("sm_")
    if not number.isdigit():
        return number.rstrip("af") == f"{capability[0]}{capability[1]}"
    major, minor = divmod(int(number), 10)
    return major == capability[0] and minor <= capability[1]


@contextmanager
def _captured_stdout(into: list[str]) -> Iterator[None]:
    """Capture the output of device printf, which the driver writes to C's stdout at synchronisation."""
    sys.stdout.flush()
    libc = ctypes.CDLL(None)
    libc.fflush(None)
    saved = os.dup(1)
    with tempfile.TemporaryFile() as stream:
        os.dup2(stream.fileno(), 1)
        try:
            yield
        finally:
            libc.fflush(None)
            os.dup2(saved, 1)
            os.close(saved)
            stream.seek(0)
            into.append(stream.read().decode(errors="replace"))


def _overwrite_event(overwrite: GuardOverwrite) -> Event:
    buffer, size = overwrite.buffer, overwrite.buffer.data.size
    first = (
        f"{-overwrite.offset} bytes before it"
        if overwrite.offset < 0
        else f"{overwrite.offset - size} bytes past its end"
    )
    message = f"{overwrite.count} bytes were written outside `{buffer.name}` ({size} bytes), the first one {first}"
    return Event(
        "memory/out-of-bounds",
        message,
        None,
        "",
        buffer=buffer.name,
        offset=overwrite.offset,
        size=overwrite.count,
        data={"guard_bytes": GUARD_BYTES},
        access=Access.WRITE,
    )


def _event(rule: str, message: str) -> Event:
    return Event(rule, message, None, "")


def _cupy() -> Any:
    """Import CuPy's low-level CUDA bindings. Deferred: it takes half a second and may not be installed."""
    from gpuemu_lsp.engine.compile.cupy_cuda import CUDA

    return CUDA
