"""Interruption of Python code at a deadline, also where it arrives in a finaliser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import weakref
from types import SimpleNamespace

import pytest

from gpuemu_lsp.engine import time_limit
from gpuemu_lsp.engine.deadline import DeadlineError, deadline


class SlowFinalizer:
    """Object whose finaliser runs for longer than the deadline of the tests."""

    def __del__(self) -> None:
        spin()


class SlowReference:
    """Object whose weak reference has a callback that runs for longer than the deadline."""


class FailingFinalizer:
    """Object whose finaliser raises an exception that is not a deadline's."""

    def __del__(self) -> None:
        raise ValueError("of the finaliser")


def spin(*_: object) -> None:
    ends = time.monotonic() + 0.1
    while time.monotonic() < ends:
        pass


def test_an_interruption_in_a_finalizer_is_not_lost() -> None:
    # Python reports an exception in __del__ as unraisable and continues; pytest makes a failure of it.
    ends = time.monotonic() + 60
    with pytest.raises(DeadlineError, match=r"0\.02 s"), deadline(0.02):
        SlowFinalizer()
        while time.monotonic() < ends:
            pass


def test_an_interruption_in_the_callback_of_a_weak_reference_is_not_lost() -> None:
    before = sys.unraisablehook
    ends = time.monotonic() + 60
    with pytest.raises(DeadlineError, match=r"0\.02 s"), deadline(0.02):
        subject = SlowReference()
        reference = weakref.ref(subject, spin)
        del subject
        while time.monotonic() < ends:
            assert reference() is None
    assert sys.unraisablehook is before


def test_other_exceptions_in_a_finalizer_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: reported.append(str(one.exc_value)))
    with deadline(60):
        FailingFinalizer()
    assert reported == ["of the finaliser"]


def test_a_step_that_is_not_part_of_the_task_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time_limit, "run_delay", lambda: 0.0)
    monkeypatch.setattr(time_limit, "time", SimpleNamespace(monotonic=lambda: now))
    shared = time_limit.SharedDeadline(time_limit.TimeLimit(8.0, started=now, delay=0.0))
    now += 3.0
    with shared.stopped():
        now += 60.0
    assert shared.limit is not None and (shared.limit.left(), shared.limit.seconds) == (5.0, 8.0)
    now += 5.0
    assert shared.has_passed()


def test_waiting_for_a_processor_does_not_count() -> None:
    # Both run on one processor, on which another process of higher priority takes most of the time.
    program = (
        "import os, time; os.nice(19)\n"
        "from gpuemu_lsp.engine.deadline import DeadlineError, deadline\n"
        "started, spent = time.monotonic(), time.thread_time()\n"
        "try:\n"
        "    with deadline(0.3):\n"
        "        while True: pass\n"
        "except DeadlineError:\n"
        "    print(time.monotonic() - started, time.thread_time() - spent)\n"
    )
    processor = str(min(os.sched_getaffinity(0)))
    with subprocess.Popen(["taskset", "-c", processor, sys.executable, "-c", "while True: pass"]) as other:
        try:
            done = subprocess.run(
                ["taskset", "-c", processor, sys.executable, "-c", program], capture_output=True, text=True, check=True
            )
        finally:
            other.kill()
    passed, running = map(float, done.stdout.split())
    assert running > 0.25
    assert passed > 2 * running
