"""Steps of a check that a forked process does ahead; what remains of them are the entries it adds to caches on disk.

Of a kernel with several dtypes or variants, the code of the first is compiled, translated and run here, that of the
others meanwhile on another core. Triton's cache and that of machine code are keyed by content, so that nothing has to
be handed over: this process finds there what it would have computed, and computes what is missing.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.subjects.model import Subject
from gpuemu_lsp.engine.time_limit import TimeLimit, run_delay

_CHUNK = 1 << 16

Report = Callable[[str], None]
"""Reports that a step, which has a name of one line, is finished."""


class TranslatePlan(Protocol):
    """Translation of the code of a plan's cases, whose entries in the cache are all that it leaves."""

    def __call__(
        self, subject: Subject, plan: Plan, wanted: Callable[[Case], bool], finished: Callable[[Case], None]
    ) -> None:
        """Translate the code of the ``wanted`` cases; ``finished`` is called with the first case of each code."""
        ...


@dataclass(slots=True)
class Ahead:
    """A forked process, and the steps it has finished, which are read from a pipe; ``pid`` 0: it has ended."""

    pid: int
    pipe: int
    seconds: float
    """Limit of each wait, after which the process is killed."""
    done: set[str] = field(default_factory=set)
    _unread: bytes = b""

    def wait(self, step: str) -> None:
        """Wait until a step is finished, or the process has ended."""
        limit = TimeLimit(self.seconds)
        delay = run_delay(self.pid)
        while self.pid and step not in self.done:
            left = limit.left() + run_delay(self.pid) - delay
            ready, _, _ = select.select([self.pipe], [], [], max(0.0, left))
            if not ready and left > 0:
                continue  # the process may have waited for a processor meanwhile
            received = os.read(self.pipe, _CHUNK) if ready else b""
            *lines, self._unread = (self._unread + received).split(b"\n")
            self.done.update(line.decode() for line in lines)
            if not received:
                self.close()

    def close(self) -> None:
        """Kill the process if it has not ended."""
        if self.pid:
            os.close(self.pipe)
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            self.pid = 0


@dataclass(slots=True)
class VariantsAhead:
    """The second and later variants of the code of a dtype's cases, which are translated ahead; each is a step."""

    process: Ahead
    dtype: str

    def wait(self, dtype: str, variant: str) -> None:
        """Wait until the code of a variant is translated, or no other will be."""
        if dtype == self.dtype:
            self.process.wait(variant)

    def close(self) -> None:
        """End the process."""
        self.process.close()


@dataclass(slots=True)
class PlansAhead:
    """The second and later plans of a kernel, each with two steps ahead: compilation, and translation."""

    process: Ahead
    _numbers: list[tuple[Plan, int]] = field(default_factory=list, init=False)

    @staticmethod
    def compiled(number: int) -> str:
        """Return the name of the step that compiles the first case of the plan with a number, from 0."""
        return f"compiled {number}"

    @staticmethod
    def translated(number: int) -> str:
        """Return the name of the step that translates the code of a plan's cases."""
        return f"translated {number}"

    def wait_compiled(self, number: int) -> None:
        """Wait until the first case of the plan with a number, from 0, is compiled."""
        if number:
            self.process.wait(self.compiled(number))

    def add(self, plan: Plan, number: int) -> None:
        """Record the number of a plan."""
        self._numbers.append((plan, number))

    def wait_translated(self, plan: Plan) -> None:
        """Wait until the code of a plan's cases is translated."""
        number = next((number for one, number in self._numbers if one is plan), 0)
        if number:
            self.process.wait(self.translated(number))

    def close(self) -> None:
        """End the process."""
        self.process.close()


def _threads() -> int:
    """Return the number of threads of this process, those of native code included where the system lists them."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return threading.active_count()


def start_ahead(work: Callable[[Report], object], seconds: float) -> Ahead | None:
    """Fork a process that does ``work`` up to its first exception; None if there is no core for it.

    ``seconds`` limits each wait for one of its steps. None also where another thread runs, such as OpenMP's after the
    user's module has computed with PyTorch: a lock that it holds would stay locked in the child.
    """
    if len(os.sched_getaffinity(0)) < 2 or _threads() > 1:
        return None
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(write)
        return Ahead(pid, read, seconds)
    try:
        # A collection would write to every object, and each write copies a page that this process shares.
        gc.disable()
        os.close(read)

        def report(step: str) -> None:
            os.write(write, f"{step}\n".encode())

        work(report)
    finally:
        # Whatever was raised: the caller's handlers and exit functions are this process's parent's.
        os._exit(0)
