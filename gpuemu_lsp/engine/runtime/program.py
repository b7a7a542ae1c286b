"""One run of a program: the child process, its limits, and its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopReason
from gpuemu_lsp.engine.execution import ALL_CHECKS, Checks
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.memory_limit import kills_for_memory
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.runtime.device_memory import BASE, SIZE
from gpuemu_lsp.engine.runtime.messages import MessageError, receive, reply
from gpuemu_lsp.engine.runtime.processes import SupervisedProgram
from gpuemu_lsp.engine.runtime.recorder import LaunchRecorder
from gpuemu_lsp.engine.runtime.service import RuntimeService
from gpuemu_lsp.engine.runtime.stopping.memory_watch import MemoryWatch
from gpuemu_lsp.engine.runtime.stopping.run_stop import INTERRUPTED, NO_MEMORY, PROGRAM_ENDED, RunStop, interrupts_stop
from gpuemu_lsp.engine.runtime.toolchain.library import runtime_library
from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError

DEVICE_BYTES = 4 << 30
"""Memory of the emulated device: ``cudaMalloc`` beyond it fails."""

_KILLED_FOR_MEMORY = (
    "the system ended the program, as it had no memory left: use smaller arguments, or a machine with more memory"
)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Wall time of the whole run and of one launch, in seconds, and device memory in bytes.

    ``memory_bytes`` limits what gpuemu uses, None for what the machine has.
    """

    seconds: float = 600.0
    launch_seconds: float = 60.0
    device_bytes: int = DEVICE_BYTES
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """Result of a run.

    ``exit_status`` is the program's, as the shell shows it: 128 plus the signal that ended it. ``launches`` counts
    those that the program made, ``completed`` those that were checked to their end, and ``repeated`` those of them that
    were proved to do nothing new. ``library_calls`` are those of cuBLAS, which make no launch. ``problem`` is why the
    run ended early, None if it did not. ``notes`` say what the program met that is not an error of its own.
    """

    exit_status: int
    launches: int
    completed: int
    repeated: int
    seconds: float
    findings: tuple[Finding, ...]
    problem: str | None = None
    notes: tuple[str, ...] = ()
    library_calls: int = 0


def run_program(
    command: Sequence[str],
    limits: RunLimits = RunLimits(),
    *,
    leaks: bool = False,
    recorder: LaunchRecorder | None = None,
    checks: Checks = ALL_CHECKS,
) -> ProgramRun:
    """Run a program that was built for our runtime, and check its launches.

    Its standard streams are those of this process. When this function returns, the program has ended. ``leaks`` reports
    allocations that the program does not free. ``recorder`` records the launches. ``checks`` are those of each launch:
    all, but for measurements.

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
    name = str(Path(command[0]).resolve())
    service = RuntimeService(name, limits.launch_seconds, limits.device_bytes, recorder, checks)
    ours, theirs = socket.socketpair()
    problem: str | None = None
    child: SupervisedProgram | None = None
    killed_before = kills_for_memory()
    stop = RunStop(service.stop, ours)
    watch = MemoryWatch(stop, limits.memory_bytes)
    service.memory_is_scarce = lambda: watch.scarce
    try:
        with ours, interrupts_stop(service.stop):
            try:
                with theirs:
                    shared = (theirs.fileno(), service.memory.descriptor)
                    settings = f"{shared[0]}:{shared[1]}:{BASE:x}:{SIZE:x}"
                    # A program that was not linked by us has no path to the library.
                    paths = [*filter(None, [os.environ.get("LD_LIBRARY_PATH")]), *libraries]
                    environment = {**os.environ, "GPUEMU_RUNTIME": settings, "LD_LIBRARY_PATH": ":".join(paths)}
                    child = SupervisedProgram(command, environment, shared, stop.program_has_ended)
                deadline = started + limits.seconds
                problem = _serve(service, ours, deadline, limits.seconds)
                stop.over()
                if problem is None:
                    child.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                problem = _time_limit(limits.seconds)
            except KeyboardInterrupt:
                if child is None:
                    raise
                problem = _stopped(service, service.stop.reason or INTERRUPTED)
            except MemoryError:
                problem = _stopped(service, NO_MEMORY)
            finally:
                stop.over()
                if child is not None:
                    child.end()
    finally:
        refused = service.memory.header.refused_process
        service.count_unseen()
        service.memory.close()
    assert child is not None
    if problem in (None, PROGRAM_ENDED.run) and _was_killed(child) and kills_for_memory() > killed_before:
        problem = _KILLED_FOR_MEMORY
    if problem is None and refused:
        problem = "a second process made CUDA calls, which were not carried out"
    service.end(leaks=leaks and problem is None)
    status = child.status
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    return ProgramRun(
        exit_status=code if code >= 0 else 128 - code,
        launches=service.launches,
        completed=service.completed,
        repeated=service.repeated,
        seconds=time.monotonic() - started,
        findings=service.findings.all,
        problem=problem,
        notes=(*service.notes, *_end_notes(child)),
        library_calls=service.library_calls,
    )


def _was_killed(child: SupervisedProgram) -> bool:
    status = child.status
    return status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _end_notes(child: SupervisedProgram) -> tuple[str, ...]:
    """Return what is to be said of how the program ended."""
    notes = []
    if child.status is not None and os.WIFSIGNALED(child.status):
        number = os.WTERMSIG(child.status)
        notes.append(f"the program was ended by signal {number} ({signal.strsignal(number)})")
    if child.left:
        processes = "1 process" if child.left == 1 else f"{child.left} processes"
        notes.append(f"{processes} that the program left running {'was' if child.left == 1 else 'were'} ended")
    return tuple(notes)


def _serve(service: RuntimeService, connection: socket.socket, deadline: float, seconds: float) -> str | None:
    """Answer the program until it ends; return the reason if it has to be stopped."""
    connection.settimeout(seconds)
    try:
        for message in receive(connection):
            service.remaining_seconds = deadline - time.monotonic()
            answer = service.answer(message)
            if service.stop.reason is not None:
                raise KeyboardInterrupt
            reply(connection, *answer)
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


def _stopped(service: RuntimeService, reason: StopReason) -> str:
    service.note_stop(reason)
    return reason.run


def _time_limit(seconds: float) -> str:
    return f"stopped after {seconds:g} seconds, its time limit"
