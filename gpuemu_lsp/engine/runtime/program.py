"""One run of a program: the child process, its limits, and its end."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.runtime.device_memory import BASE, SIZE
from gpuemu_lsp.engine.runtime.messages import MessageError, receive, reply
from gpuemu_lsp.engine.runtime.recorder import LaunchRecorder
from gpuemu_lsp.engine.runtime.service import RuntimeService
from gpuemu_lsp.engine.runtime.toolchain.library import runtime_library
from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError

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
    those that the program made, ``completed`` those that were checked to their end, and ``repeated`` those of them that
    were proved to do nothing new. ``problem`` is the reason for which the run ended early, None if it did not.
    ``notes`` say what the program met that is no error of its own.
    """

    exit_status: int
    launches: int
    completed: int
    repeated: int
    seconds: float
    findings: tuple[Finding, ...]
    problem: str | None = None
    notes: tuple[str, ...] = ()


def run_program(
    command: Sequence[str],
    limits: RunLimits = RunLimits(),
    *,
    leaks: bool = False,
    recorder: LaunchRecorder | None = None,
) -> ProgramRun:
    """Run a program that was built for our runtime, and check its launches.

    Its standard streams are those of this process. When this function returns, the program has ended. ``leaks`` reports
    allocations that the program does not free. ``recorder`` records the launches.

    Raises
    ------
    OSError
        If the program cannot be started.
    """
    try:
        libraries = [str(runtime_library().parent)]
    except ProgramBuildError:
        libraries = []
    started = time.monotonic()
    service = RuntimeService(str(Path(command[0]).resolve()), limits.launch_seconds, limits.device_bytes, recorder)
    ours, theirs = socket.socketpair()
    problem: str | None = None
    status = 128 + 9
    try:
        with ours:
            with theirs:
                shared = (theirs.fileno(), service.memory.descriptor)
                settings = f"{shared[0]}:{shared[1]}:{BASE:x}:{SIZE:x}"
                # A program that was not linked by us has no path to the library.
                paths = [*filter(None, [os.environ.get("LD_LIBRARY_PATH")]), *libraries]
                environment = {**os.environ, "GPUEMU_RUNTIME": settings, "LD_LIBRARY_PATH": ":".join(paths)}
                child = subprocess.Popen(command, env=environment, pass_fds=shared)
            try:
                deadline = started + limits.seconds
                problem = _serve(service, ours, deadline, limits.seconds)
                status = child.wait(max(deadline - time.monotonic(), 0.1) if problem is None else 0.1)
            except subprocess.TimeoutExpired:
                problem = problem or _time_limit(limits.seconds)
            except KeyboardInterrupt:
                problem = "interrupted"
            finally:
                if child.poll() is None:
                    child.kill()
                child.wait()
    finally:
        os.close(service.memory.descriptor)
    service.end(leaks=leaks and problem is None)
    return ProgramRun(
        exit_status=status if status >= 0 else 128 - status,
        launches=service.launches,
        completed=service.completed,
        repeated=service.repeated,
        seconds=time.monotonic() - started,
        findings=service.findings.all,
        problem=problem,
        notes=service.notes,
    )


def _serve(service: RuntimeService, connection: socket.socket, deadline: float, seconds: float) -> str | None:
    """Answer the program until it ends; return the reason if it has to be stopped."""
    connection.settimeout(seconds)
    try:
        for message in receive(connection):
            reply(connection, *service.answer(message))
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            connection.settimeout(remaining)
    except TimeoutError:
        return _time_limit(seconds)
    except MessageError as error:
        return f"stopped: {error}"
    except PtxError as error:
        return f"stopped: its PTX cannot be read: {error}"
    except OSError:
        return None  # it ended before it had read the answer
    return None


def _time_limit(seconds: float) -> str:
    return f"stopped after {seconds:g} seconds, its time limit"
