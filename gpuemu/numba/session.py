"""Sessions in which numba-cuda launches run in the emulator, and the findings that they collect."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numba_cuda

from gpuemu.launches import (
    DEFAULT_ARCH,
    DEFAULT_SECONDS,
    LaunchRecord,
    OnFinding,
    distinct_findings,
    findings_of,
    report,
)
from gpuemu.numba.arguments import pack
from gpuemu.numba.device import NumbaLaunch, emulated_device
from gpuemu.numba.memory import DeviceMemory
from gpuemu.numba.shared_arrays import with_shared_names
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.event_findings import slow_grid_barrier
from gpuemu_lsp.engine.execution import Checks, Request
from gpuemu_lsp.engine.findings import Finding, Place, Range

_PACKAGE = Path(__file__).parent.parent
_LIBRARIES = tuple(Path(module.__file__).parent for module in (numba, numba_cuda))


@dataclass(slots=True)
class Session:
    """Launches and findings between activation and its end.

    ``on_finding`` says what an error finding does: ``raise`` a :class:`gpuemu.launches.KernelError` from the launch,
    ``warn``, or only ``collect``. Findings of a lower severity never raise.
    """

    arch: str
    checks: Checks
    on_finding: OnFinding
    seconds: float
    launches: list[LaunchRecord] = field(default_factory=list)
    _emulator: Emulator = field(default_factory=Emulator)
    _artifacts: dict[str, Artifact] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all launches, in the order in which they were made; each rule once per line."""
        return distinct_findings(self.launches)

    def run(self, launch: NumbaLaunch, memory: DeviceMemory) -> None:
        """Run a launch, write its results to device memory, and report. Launches of several threads run in turn.

        Raises
        ------
        KernelError
            If it has an error and ``on_finding`` is ``raise``.
        """
        with self._lock:
            record = self._record(launch, memory)
            self.launches.append(record)
        report(record, self.on_finding)

    def _record(self, launch: NumbaLaunch, memory: DeviceMemory) -> LaunchRecord:
        arguments, allocations = pack(launch.values, launch.source.slots, launch.function.entry.params, memory)
        request = Request(
            artifact=self._artifact(launch),
            entry=launch.function.name,
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            arguments=tuple(arguments),
            checks=self.checks,
            max_seconds=self.seconds,
        )
        started = time.perf_counter()
        outcome = self._emulator.run(request)
        elapsed = (time.perf_counter() - started) * 1e3
        for name, allocation in allocations.items():
            if name in outcome.buffers:
                allocation.data[:] = outcome.buffers[name]
            if allocation.initialized is not None and outcome.written is not None and name in outcome.written:
                allocation.initialized |= outcome.written[name]
        if outcome.printed:
            print(outcome.printed, end="")  # noqa: T201 - print() in a kernel
        launch.function.set_variables(outcome.variables)
        events = outcome.events
        if launch.source.copies:
            # Copying bytes that were never written does not use them: initcheck's rule for cudaMemcpy.
            events = tuple(event for event in events if event.rule != "memory/uninitialized-read")
        if launch.cooperative:
            events = tuple(map(slow_grid_barrier, events))
        # numba's own reductions call syncwarp() with a full mask where some lanes have left: not the program's error.
        files = launch.function.parsed.files
        events = tuple(
            event
            for event in events
            if event.rule != "sync/missing-warp-mask"
            or event.location is None
            or not _is_library(files.get(event.location.file, ""))
        )
        findings = findings_of(request, events, _user_text, _launch_place(), kernel=launch.source.name)
        return LaunchRecord(
            launch.source.name,
            launch.grid,
            launch.block[0] * launch.block[1] * launch.block[2],
            outcome.status,
            outcome.translate_ms,
            elapsed - outcome.translate_ms,
            findings,
            request.artifact,
            outcome.approximate,
        )

    def _artifact(self, launch: NumbaLaunch) -> Artifact:
        function = launch.function
        if function.ptx not in self._artifacts:
            entries = {launch.source.name: function.name}
            ptx = with_shared_names(function.ptx, function.parsed, launch.source.shared)
            self._artifacts[function.ptx] = Artifact("", self.arch, ptx, b"", entries, {}, "numba")
        return self._artifacts[function.ptx]


def _launch_place() -> Place | None:
    """Return the line of the program that makes the launch: the place of a finding in a kernel of numba's own."""
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if not Path(path).is_relative_to(_PACKAGE) and _user_text(path) is not None:
            line = frame.f_lineno - 1
            return Place(path, Range.of(line, 0, line, 1))
        frame = frame.f_back
    return None


def _is_library(path: str) -> bool:
    """Whether a file is part of numba; its tests are a program like any other."""
    file = Path(path)
    return any(file.is_relative_to(library) for library in _LIBRARIES) and "tests" not in file.parts


@cache
def _user_text(path: str) -> str | None:
    """Return the text of a file of the user's; functions of numba's library are inlined into it."""
    if _is_library(path):
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


@contextmanager
def emulated(
    arch: str = DEFAULT_ARCH,
    *,
    checks: Checks | None = None,
    on_finding: OnFinding = "raise",
    seconds: float = DEFAULT_SECONDS,
) -> Iterator[Session]:
    """Run numba-cuda launches in the emulator inside a ``with`` statement.

    Parameters
    ----------
    arch
        The architecture to compile for, such as ``sm_80``.
    checks
        The checkers; by default all.
    on_finding
        What an error does: ``raise``, ``warn`` or ``collect``.
    seconds
        Limit of each launch, in seconds.
    """
    session = Session(arch, checks or Checks(), on_finding, seconds)
    run: Callable[[NumbaLaunch, DeviceMemory], Any] = session.run
    with emulated_device(arch, run):
        yield session


_activation = ExitStack()


def activate(
    arch: str = DEFAULT_ARCH,
    *,
    checks: Checks | None = None,
    on_finding: OnFinding = "raise",
    seconds: float = DEFAULT_SECONDS,
) -> Session:
    """Run numba-cuda launches in the emulator until :func:`deactivate`, or for the rest of the process.

    The parameters are those of :func:`emulated`.
    """
    deactivate()
    return _activation.enter_context(emulated(arch, checks=checks, on_finding=on_finding, seconds=seconds))


def deactivate() -> None:
    """End what :func:`activate` began."""
    _activation.close()
