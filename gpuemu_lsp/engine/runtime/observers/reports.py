"""What a launch prints and what is wrong with it, once it has ended."""

from __future__ import annotations

import os
import sys

from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopReason, StopRequest
from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.host.call_accesses import CallAccesses
from gpuemu_lsp.engine.runtime.launches.kernels import ProgramLaunch
from gpuemu_lsp.engine.runtime.observers.launch import LaunchObserver, LaunchResult, ObservedLaunch


class OutputClosedError(Exception):
    """What kernels print cannot be written; the message has the reason."""


class LaunchReports(LaunchObserver):
    """Writes the output of launches to that of this process, and adds their findings to those of the run."""

    def __init__(self, findings: RunFindings, accesses: CallAccesses, stop: StopRequest) -> None:
        self._findings, self._accesses, self._stop = findings, accesses, stop
        self._unfinished: ProgramLaunch | None = None

    def begin(self, launch: ObservedLaunch) -> None:
        """Note that the launch has begun."""
        self._unfinished = launch.launch

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult:
        """Report races with other streams, then the output, and then what the launch itself does."""
        for race in result.races:
            self._accesses.report(race, launch.launch.site)
        if result.outcome is not None:
            self._report(launch, result, result.outcome)
            self._unfinished = None
        return result

    def note_stop(self, reason: StopReason) -> None:
        """Add that a launch was stopped, if an exception has prevented its end."""
        if self._unfinished is not None:
            self._findings.stopped(self._unfinished, reason)

    def _report(self, launch: ObservedLaunch, result: LaunchResult, outcome: Outcome) -> None:
        if outcome.printed:
            _write_out(outcome.printed)
        reason = self._stop.reason
        raced = {event.location for event in outcome.events if event.rule.endswith("-race")}
        # Whether a racing read finds a value is a matter of the order: the race is the cause.
        events = (
            event
            for event in result.events
            if not (event.rule == "memory/uninitialized-read" and event.location in raced)
        )
        self._findings.events(events, launch.launch, launch.built, discarded=result.discarded, stopped=reason)
        if not result.checked:
            self._findings.not_run(outcome, launch.launch, reason)


def _write_out(text: str) -> None:
    """Write to standard output.

    Raises
    ------
    OutputClosedError
        If it is not read any more (``| head``, a terminal that is closed), or the disk is full.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python flushes again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputClosedError(error.strerror or str(error)) from error
