"""One run of a program: the child process, its requests, and the launches it makes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.parser import parse
from gpuemu_lsp.engine.runtime.call_sites import call_site
from gpuemu_lsp.engine.runtime.device_memory import BASE, SIZE, DeviceAllocation, DeviceMemory
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.launches import (
    LoadedKernel,
    ProgramLaunch,
    apply_results,
    changed_variables,
    freed_arguments,
    loaded_kernel,
    request_of,
)
from gpuemu_lsp.engine.runtime.messages import Message, MessageError, RuntimeCall, receive, reply

_INVALID_VALUE = 1
_LAUNCH_FAILURE = 719
"""Values of ``cudaError_t``."""

DEVICE_BYTES = 4 << 30
"""Memory of the emulated device: ``cudaMalloc`` beyond it fails."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Wall time of the whole run and of one launch, in seconds, and device memory in bytes."""

    seconds: float = 600.0
    launch_seconds: float = 60.0
    device_bytes: int = DEVICE_BYTES


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """Result of a run.

    ``exit_status`` is the program's, as the shell shows it: 128 plus the signal that ended it. ``launches`` counts
    those that the program made, ``completed`` those that were checked to their end. ``problem`` is the reason for which
    the run ended early, None if it did not.
    """

    exit_status: int
    launches: int
    completed: int
    seconds: float
    findings: tuple[Finding, ...]
    problem: str | None = None


def run_program(command: Sequence[str], limits: RunLimits = RunLimits()) -> ProgramRun:
    """Run a program that was built for our runtime, and check its launches.

    Its standard streams are those of this process. When this function returns, the program has ended.

    Raises
    ------
    OSError
        If the program cannot be started.
    """
    return _Session(command, limits).run()


class _Session:
    def __init__(self, command: Sequence[str], limits: RunLimits) -> None:
        self._command = command
        self._limits = limits
        self._memory = DeviceMemory()
        self._emulator = Emulator()
        self._modules: dict[int, Module] = {}
        self._kernels: list[LoadedKernel] = []
        self._findings = RunFindings(str(Path(command[0]).resolve()))
        self._launches = self._completed = 0
        self._answers: dict[RuntimeCall, Callable[[Message], list[int]]] = {
            RuntimeCall.MODULE: self._module,
            RuntimeCall.FUNCTION: self._function,
            RuntimeCall.ALLOCATE: self._allocate,
            RuntimeCall.FREE: self._free,
            RuntimeCall.TRANSFER: self._transfer,
            RuntimeCall.LAUNCH: self._launch,
        }

    def run(self) -> ProgramRun:
        started = time.monotonic()
        deadline = started + self._limits.seconds
        ours, theirs = socket.socketpair()
        problem = None
        with ours:
            with theirs:
                shared = (theirs.fileno(), self._memory.descriptor)
                settings = f"{shared[0]}:{shared[1]}:{BASE:x}:{SIZE:x}"
                environment = {**os.environ, "GPUEMU_RUNTIME": settings}
                child = subprocess.Popen(self._command, env=environment, pass_fds=shared)
            try:
                problem = self._serve(ours, deadline)
                status = child.wait(max(deadline - time.monotonic(), 0.1) if problem is None else 0.1)
            except subprocess.TimeoutExpired:
                problem = problem or f"stopped after {self._limits.seconds:g} seconds, its time limit"
                status = 128 + 9
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
                os.close(self._memory.descriptor)
        return ProgramRun(
            exit_status=status if status >= 0 else 128 - status,
            launches=self._launches,
            completed=self._completed,
            seconds=time.monotonic() - started,
            findings=self._findings.all,
            problem=problem,
        )

    def _serve(self, connection: socket.socket, deadline: float) -> str | None:
        """Answer the program until it ends; return the reason if it has to be stopped."""
        connection.settimeout(self._limits.seconds)
        try:
            for message in receive(connection):
                reply(connection, *self._answers[message.operation](message))
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                connection.settimeout(remaining)
        except TimeoutError:
            return f"stopped after {self._limits.seconds:g} seconds, its time limit"
        except MessageError as error:
            return f"stopped: {error}"
        except PtxError as error:
            return f"stopped: its PTX cannot be read: {error}"
        except OSError:
            return None  # it ended before it had read the answer
        return None

    def _module(self, message: Message) -> list[int]:
        number, ptx = message.word(), message.text()
        self._modules[number] = parse(ptx)
        return []

    def _function(self, message: Message) -> list[int]:
        module, name = self._modules[message.word()], message.text()
        kernel = loaded_kernel(module, name)
        if kernel is None:
            return [0, 0]
        self._kernels.append(kernel)
        layout = [number for one in kernel.parameters for number in (one.offset, one.size)]
        return [len(self._kernels), kernel.parameter_bytes, *layout]

    def _allocate(self, message: Message) -> list[int]:
        size, site = message.word(), call_site(message.frames())
        allocation = self._memory.allocate(size, site, self._limits.device_bytes)
        return [allocation.address if allocation is not None else 0]

    def _free(self, message: Message) -> list[int]:
        address, site = message.word(), call_site(message.frames())
        allocation = self._memory.find(address)
        if allocation is not None and allocation.address == address and allocation.live:
            self._memory.free(allocation, site)
            return [0]
        if allocation is None:
            reason = "an address that is not of device memory"
        elif allocation.live:
            reason = f"byte {address - allocation.address} of an allocation"
        else:
            reason = f"memory that was freed at {allocation.freed}"
        self._findings.host(f"cudaFree of {reason}", site, allocation)
        return [_INVALID_VALUE]

    def _transfer(self, message: Message) -> list[int]:
        target, source, size = message.word(), message.word(), message.word()
        frames = message.frames()
        ends: list[DeviceAllocation | None] = []
        for address, verb in ((target, "writes"), (source, "reads")):
            allocation = self._memory.nearest(address) if address else None
            ends.append(allocation)
            problem = _range_problem(allocation, address, size) if address else None
            if problem is not None:
                self._findings.host(f"the call {verb} {size} bytes {problem}", call_site(frames), allocation)
                return [_INVALID_VALUE]
        to, origin = ends
        if to is not None:
            low = target - to.address
            if origin is not None:
                start = source - origin.address
                to.initialised[low : low + size] = origin.initialised[start : start + size].copy()
            else:
                to.initialised[low : low + size] = True
        return [0]

    def _launch(self, message: Message) -> list[int]:
        kernel = self._kernels[message.word() - 1]
        grid = (message.word(), message.word(), message.word())
        block = (message.word(), message.word(), message.word())
        shared, parameters = message.word(), message.data()
        site = call_site(message.frames(), kernel.function.name)
        launch = ProgramLaunch(kernel, grid, block, shared, parameters, site)
        self._launches += 1
        request, allocations = request_of(launch, self._memory, self._limits.launch_seconds)
        outcome = self._emulator.run(request)
        apply_results(outcome, self._memory, allocations)
        if outcome.printed:
            sys.stdout.write(outcome.printed)
            sys.stdout.flush()
        for event in outcome.events:
            accessed = allocations.get(event.buffer or "")
            # An access to freed memory is in no buffer.
            candidates = freed_arguments(launch, self._memory) if accessed is None else (accessed,)
            self._findings.event(event, launch, candidates)
        if outcome.status in ("completed", "trapped"):
            self._completed += 1
        else:
            self._findings.not_run(outcome, launch)
        variables = changed_variables(outcome, kernel.module)
        if variables:
            self._findings.not_kept(launch, variables)
        return [0 if outcome.status == "completed" else _LAUNCH_FAILURE]


def _range_problem(allocation: DeviceAllocation | None, address: int, size: int) -> str | None:
    """Return what is wrong with a range of device memory, None if it is inside a live allocation."""
    if allocation is None:
        return "outside every allocation"
    offset = address - allocation.address
    if not allocation.live:
        return f"from byte {offset} of memory that was freed at {allocation.freed}"
    if offset + size > allocation.size:
        return f"from byte {offset} of an allocation of {allocation.size} bytes, past its end"
    return None
