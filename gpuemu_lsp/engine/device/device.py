"""Run one launch on a real GPU.

Every run loads the module afresh (so that ``__device__`` variables start as the source says) and owns its memory. A
fault leaves the CUDA context unusable for good: :attr:`Device.poisoned` then tells the worker to retire.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuemu_lsp.engine.device.errors import LAUNCH_REFUSED, fault
from gpuemu_lsp.engine.device.layout import (
    GUARD_BYTES,
    GuardedAllocation,
    GuardOverwrite,
    breaches,
    image,
    parameters,
    regions,
)
from gpuemu_lsp.engine.execution import Bytes, Event, Outcome, Request

_DEFAULT_SHARED_LIMIT = 48 * 1024
_OLDEST = (7, 0)
_NOT_RUN = "engine/not-executed"


def available() -> tuple[bool, str]:
    """Say whether there is a GPU to run on, and which, or why not."""
    try:
        runtime = _cupy().runtime
        if runtime.getDeviceCount() < 1:
            return False, "no CUDA device"
        properties = runtime.getDeviceProperties(0)
    except ImportError as error:
        return False, f"CuPy is not installed ({error})"
    except RuntimeError as error:  # CuPy's errors all are
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
    """Device allocations of one run, by region."""

    bases: list[tuple[GuardedAllocation, int]]

    def addresses(self) -> dict[str, int]:
        return {buffer.name: base + start for region, base in self.bases for buffer, start in region.members}


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
        """Run one launch. What the kernel does wrong is in the outcome, never raised."""
        if self.poisoned:
            message = "an earlier fault has ended this process's use of the GPU"
            return Outcome("failed", self.name, {}, events=(_event(_NOT_RUN, message),), counters={"poisoned": 1})
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
            events=tuple(map(_breach_event, found)),
            printed="".join(printed),
            translate_ms=(loaded - start) * 1e3,
            execute_ms=(done - loaded) * 1e3,
        )

    @contextmanager
    def _module(self, request: Request) -> Iterator[int]:
        """Load the artifact: its cubin where this GPU can run it, else its PTX through the driver's compiler."""
        artifact = request.artifact
        fits = bool(artifact.cubin) and runs_on(artifact.arch, self._capability)
        module = self._cuda.driver.moduleLoadData(artifact.cubin if fits else artifact.ptx.encode() + b"\0")
        try:
            yield self._cuda.driver.moduleGetFunction(module, request.entry)
        finally:
            if not self.poisoned:
                self._quietly(self._cuda.driver.moduleUnload, module)

    @contextmanager
    def _memory(self, request: Request) -> Iterator[_Memory]:
        memory = _Memory([])
        try:
            for region in regions(request.arguments):
                content = image(region)
                base = self._cuda.runtime.malloc(region.size)
                memory.bases.append((region, base))
                self._copy(base, content.ctypes.data, region.size, self._cuda.runtime.memcpyHostToDevice)
            yield memory
        finally:
            for _, base in memory.bases:
                self._quietly(self._cuda.runtime.free, base)

    def _launch(self, request: Request, function: int, memory: _Memory) -> None:
        driver = self._cuda.driver
        if request.shared_bytes > _DEFAULT_SHARED_LIMIT:
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function, attribute, request.shared_bytes)
        held = [
            ctypes.create_string_buffer(item, len(item)) for item in parameters(request.arguments, memory.addresses())
        ]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*(ctypes.addressof(item) for item in held))
        driver.launchKernel(
            function, *request.grid, *request.block, request.shared_bytes, 0, ctypes.addressof(pointers), 0
        )
        self._cuda.runtime.deviceSynchronize()

    def _collect(self, memory: _Memory) -> tuple[dict[str, Bytes], list[GuardOverwrite]]:
        """Copy everything back: the buffers' bytes, and what happened to the guards."""
        buffers: dict[str, Bytes] = {}
        found: list[GuardOverwrite] = []
        for region, base in memory.bases:
            after = np.empty(region.size, np.uint8)
            self._copy(after.ctypes.data, base, region.size, self._cuda.runtime.memcpyDeviceToHost)
            found.extend(breaches(region, after))
            for buffer, start in region.members:
                buffers[buffer.name] = after[start : start + buffer.data.size].copy()
        return buffers, found

    def _failure(self, error: RuntimeError, printed: str) -> Outcome:
        """Turn CUDA's error into an outcome; anything but a refused launch costs us the context."""
        status = int(getattr(error, "status", -1))
        self.poisoned = self.poisoned or status not in LAUNCH_REFUSED
        known = fault(status)
        rule, text = (known.rule, f"{known.message}: {error}") if known is not None else (_NOT_RUN, str(error))
        return Outcome(
            known.status if known is not None else "failed",
            self.name,
            {},
            events=(_event(rule, text),),
            printed=printed,
            counters={"poisoned": int(self.poisoned), "cuda_status": status},
        )

    def _copy(self, to: int, source: int, size: int, kind: int) -> None:
        self._cuda.runtime.memcpy(to, source, size, kind)

    def _quietly(self, function: Any, *arguments: int) -> None:
        """Clean up: after a fault CUDA refuses this too, and the first error is the one that counts."""
        try:
            function(*arguments)
        except RuntimeError:
            self.poisoned = True


def runs_on(arch: str, capability: tuple[int, int]) -> bool:
    """Say whether a cubin for ``arch`` runs on a device: the same major, no newer minor, letters exactly."""
    number = arch.removeprefix("sm_")
    if not number.isdigit():
        return number.rstrip("af") == f"{capability[0]}{capability[1]}"
    major, minor = divmod(int(number), 10)
    return major == capability[0] and minor <= capability[1]


@contextmanager
def _captured_stdout(into: list[str]) -> Iterator[None]:
    """Collect what device code prints: the driver writes it to the process' C stdout when it synchronises."""
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


def _breach_event(breach: GuardOverwrite) -> Event:
    buffer, size = breach.buffer, breach.buffer.data.size
    first = f"{-breach.offset} bytes before it" if breach.offset < 0 else f"{breach.offset - size} bytes past its end"
    message = f"{breach.count} bytes were written outside `{buffer.name}` ({size} bytes), the first one {first}"
    return Event(
        "memory/out-of-bounds",
        message,
        None,
        "",
        buffer=buffer.name,
        offset=breach.offset,
        size=breach.count,
        data={"guard_bytes": GUARD_BYTES},
    )


def _event(rule: str, message: str) -> Event:
    return Event(rule, message, None, "")


def _cupy() -> Any:
    """Return CuPy's low-level CUDA bindings. Imported late: half a second, and absent where there is no GPU."""
    return importlib.import_module("cupy.cuda")
