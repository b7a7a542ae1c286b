"""One run of a program: the child process, its limits, and its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopReason, StopRequest
from gpuemu_lsp.engine.execution import ALL_CHECKS, Checks
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.memory_limit import kills_for_memory
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.runtime.answers import Answers
from gpuemu_lsp.engine.runtime.device import DEVICE_BYTES, DeviceLimits, EmulatedDevice
from gpuemu_lsp.engine.runtime.memory.device_memory import BASE, SIZE
from gpuemu_lsp.engine.runtime.observers.recorder import LaunchRecorder
from gpuemu_lsp.engine.runtime.observers.reports import OutputClosedError
from gpuemu_lsp.engine.runtime.processes.memory_watch import MemoryWatch
from gpuemu_lsp.engine.runtime.processes.run_stop import INTERRUPTED, NO_MEMORY, PROGRAM_ENDED, RunStop, interrupts_stop
from gpuemu_lsp.engine.runtime.processes.supervised import SupervisedProgram
from gpuemu_lsp.engine.runtime.protocol.connection import receive, reply
from gpuemu_lsp.engine.runtime.protocol.messages import Unanswered
from gpuemu_lsp.engine.runtime.protocol.records import MessageError
from gpuemu_lsp.engine.runtime.toolchain.library import runtime_library
from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError

_KILLED_FOR_MEMORY = (
    "the system ended the program, as it had no memory left: use smaller arguments, or a machine with more memory"
)

_NOT_ENDED = "gpuemu was ended before the program"
_KILLED = 128 + signal.SIGKILL


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
    environment: Mapping[str, str] = MappingProxyType({}),
    on_finding: Callable[[ProgramRun], None] | None = None,
) -> ProgramRun:
    """Run a program that was built for our runtime, and check its launches.

    Its standard streams are those of this process. When this function returns, the program has ended. ``leaks`` reports
    allocations that the program does not free. ``recorder`` records the launches. ``checks`` are those of each launch:
    all, but for measurements. ``environment`` is added to that of this process. ``on_finding`` is given the run so far
    before the program starts and with each finding, as it will be if this process is killed.

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
    deadline = started + limits.seconds
    request = StopRequest()
    ours, theirs = socket.socketpair()
    stop = RunStop(request, ours)
    watch = MemoryWatch(stop, limits.memory_bytes)
    device = EmulatedDevice(
        str(Path(command[0]).resolve()),
        DeviceLimits(limits.device_bytes, limits.launch_seconds, deadline),
        checks=checks,
        recorder=recorder,
        stop=request,
        memory_is_scarce=lambda: watch.scarce,
    )
    # The recorder counts repeats, which it therefore has to see.
    answers = Answers(device, repeats_unseen=recorder is None)
    problem: str | None = None
    child: SupervisedProgram | None = None
    reports = _FindingReports(device, started, on_finding)
    killed_before = kills_for_memory()
    try:
        with ours, interrupts_stop(request):
            try:
                reports.report()
                with theirs:
                    shared = (theirs.fileno(), device.memory.descriptor)
                    settings = f"{shared[0]}:{shared[1]}:{BASE:x}:{SIZE:x}:{os.getpid()}"
                    # A program that was not linked by us has no path to the library.
                    paths = [*filter(None, [os.environ.get("LD_LIBRARY_PATH")]), *libraries]
                    runtime = {"GPUEMU_RUNTIME": settings, "LD_LIBRARY_PATH": ":".join(paths)}
                    variables = {**os.environ, **environment, **runtime}
                    child = SupervisedProgram(command, variables, shared, stop.program_has_ended)
                problem = _serve(answers, request, ours, deadline, limits.seconds, reports)
                stop.over()
                if problem is None:
                    child.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                problem = _time_limit(limits.seconds)
            except KeyboardInterrupt:
                if child is None:
                    raise
                problem = _stopped(device, request.reason or INTERRUPTED)
            except MemoryError:
                problem = _stopped(device, NO_MEMORY)
            finally:
                stop.over()
                if child is not None:
                    child.end()
    finally:
        refused = device.memory.words.refused_process
        answers.count_unseen()
        device.close()
    assert child is not None
    if problem in (None, PROGRAM_ENDED.run) and _was_killed(child) and kills_for_memory() > killed_before:
        problem = _KILLED_FOR_MEMORY
    if problem is None and refused:
        problem = "a second process made CUDA calls, which were not carried out"
    answers.end(leaks=leaks and problem is None)
    status = child.status
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    return ProgramRun(
        exit_status=code if code >= 0 else 128 - code,
        launches=device.counts.launches,
        completed=device.counts.completed,
        repeated=device.counts.repeated,
        seconds=time.monotonic() - started,
        findings=device.findings.all,
        problem=problem,
        notes=(*device.notes, *_end_notes(child)),
        library_calls=answers.library_calls,
    )


class _FindingReports:
    """Reports a run to a function whenever there is a finding that it does not have."""

    def __init__(self, device: EmulatedDevice, started: float, function: Callable[[ProgramRun], None] | None) -> None:
        self._device, self._started, self._function = device, started, function
        self._reported = 0

    def report_new(self) -> None:
        """Report the run if there are findings since the last time."""
        if self._device.findings.made != self._reported:
            self.report()

    def report(self) -> None:
        """Report the run so far."""
        self._reported = self._device.findings.made
        if self._function is None:
            return
        counts = self._device.counts
        run = ProgramRun(
            # The program ends with this process.
            exit_status=_KILLED,
            launches=counts.launches,
            completed=counts.completed,
            repeated=counts.repeated,
            seconds=time.monotonic() - self._started,
            findings=self._device.findings.all,
            problem=_NOT_ENDED,
            notes=self._device.notes,
        )
        self._function(run)


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


def _serve(
    answers: Answers,
    stop: StopRequest,
    connection: socket.socket,
    deadline: float,
    seconds: float,
    reports: _FindingReports,
) -> str | None:
    """Answer the program until it ends; return the reason if it has to be stopped."""
    connection.settimeout(seconds)
    try:
        for message in receive(connection):
            answer = answers.answer(message)
            reports.report_new()
            if stop.reason is not None:
                raise KeyboardInterrupt
            if not isinstance(answer, Unanswered):
                reply(connection, answer)
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
    except OutputClosedError as error:
        # The program waits for an answer, and would do so up to the time limit.
        return f"stopped: what its kernels print cannot be written: {error}"
    except OSError:
        return None  # it ended before it had read the answer
    return None


def _stopped(device: EmulatedDevice, reason: StopReason) -> str:
    device.note_stop(reason)
    return reason.run


def _time_limit(seconds: float) -> str:
    return f"stopped after {seconds:g} seconds, its time limit"
