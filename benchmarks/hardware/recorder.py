"""Recording of the emulator's launches in this process: a pytest plugin, and a context for other callers."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from benchmarks.hardware.instructions import recorded_run
from benchmarks.hardware.launches import store
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Argument, Buffer, Outcome, Request, Scalar

FOLDER_VARIABLE = "GPUEMU_RECORDED_LAUNCHES"
_MOST_BYTES = 1 << 20
_MOST_PER_KERNEL = 6
_NEWEST = 90
"""Highest compute capability, times ten, of PTX that is recorded."""


@dataclass(slots=True)
class Recorder:
    """What was recorded: ``counts`` has launches by what became of them, ``source`` says who makes the next ones."""

    source: str = ""
    counts: Counter[str] = field(default_factory=Counter)


@contextmanager
def recording(folder: Path) -> Iterator[Recorder]:
    """Store launches of :class:`Emulator` while the context is open."""
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder()
    of_kernel: Counter[tuple[int, str]] = Counter()
    run = Emulator.run

    def recorded(self: Emulator, request: Request) -> Outcome:
        kernel = (hash(request.artifact.ptx), request.entry)
        why = _not_comparable(request)
        if why is None and of_kernel[kernel] >= _MOST_PER_KERNEL:
            why = "enough launches of the kernel"
        # Results in place replace the arguments, of which the recording has what they were.
        given = replace(request, arguments=tuple(map(_copied, request.arguments))) if request.in_place else request
        outcome = run(self, request)
        if why is None and (outcome.status != "completed" or outcome.events):
            why = "with events"
        elif why is None and not store(folder, given, outcome, recorder.source):
            why = "known"
        of_kernel[kernel] += why is None
        recorder.counts[why or "recorded"] += 1
        return outcome

    Emulator.run = recorded  # type: ignore[method-assign]
    try:
        yield recorder
    finally:
        Emulator.run = run  # type: ignore[method-assign]


def _not_comparable(request: Request) -> str | None:
    """Return why a launch cannot be repeated on another machine, None if it can."""
    if request.reachable or any(_not_copied(one) for one in request.buffers):
        return "memory of a program"
    if sum(one.data.size for one in request.buffers) > _MOST_BYTES:
        return "large arguments"
    if not request.checks.contained:
        return "unchecked"
    target = request.artifact.ptx.partition(".target")[2].partition("\n")[0].split(",")[0].strip()
    number = target.removeprefix("sm_")
    plain = number.rstrip("af")
    if not plain.isdigit() or int(plain) > _NEWEST or (plain != number and number != "90a"):
        return f"PTX for {target or 'no target'}"
    return None


def _copied(argument: Argument) -> Argument:
    if isinstance(argument, Scalar):
        return argument
    pointers = tuple((offset, replace(one, data=one.data.copy())) for offset, one in argument.pointers)
    if isinstance(argument, Buffer):
        return replace(argument, data=argument.data.copy(), pointers=pointers)
    return replace(argument, pointers=pointers)


def _not_copied(buffer: Buffer) -> bool:
    return buffer.resident or buffer.freed or buffer.holds_addresses or buffer.variable is not None


class LaunchSources:
    """Plugin that records the launches of all tests of a session."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note which test makes the next launches."""
        self._recorder.source = item.nodeid


def pytest_configure(config: pytest.Config) -> None:
    """Record into the folder that the environment names."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    stack = ExitStack()
    recorder = stack.enter_context(recording(folder))
    # Before test modules import it.
    instruction_launch = importlib.import_module("support.instruction_launch")
    instruction_launch.run = recorded_run(instruction_launch.run, instruction_launch.parse, folder)
    config.pluginmanager.register(LaunchSources(recorder))
    stack.callback(lambda: print(dict(recorder.counts)))
    config.add_cleanup(stack.close)
