"""Steps of a check that a forked process does ahead; what remains of them are the entries it adds to caches on disk.

Of a kernel with several dtypes, the code of the first is compiled, translated and run here, that of the others
meanwhile on another core. Triton's cache and that of machine code are keyed by content, so that nothing has to be
handed over: this process finds there what it would have computed, and computes what is missing.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.subjects.model import Subject

_DONE = b"."

TranslatePlan = Callable[[Subject, Plan], None]
"""Translates the code of a plan's cases, whose entries in the cache are all that it leaves."""


@dataclass(slots=True)
class Ahead:
    """A forked process and the number of its finished steps, which is read from a pipe; ``pid`` 0: it has ended."""

    pid: int
    pipe: int
    done: int = 0

    def wait(self, steps: int, seconds: float) -> None:
        """Wait until so many steps are finished, or the process has ended; after ``seconds`` it is killed."""
        ends = time.monotonic() + seconds
        while self.pid and self.done < steps:
            ready, _, _ = select.select([self.pipe], [], [], max(0.0, ends - time.monotonic()))
            finished = os.read(self.pipe, 64) if ready else b""
            self.done += len(finished)
            if not finished:
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
class PlansAhead:
    """The second and later plans of a kernel, each with two steps ahead: compilation, and translation."""

    process: Ahead
    seconds: float
    _steps: list[tuple[Plan, int]] = field(default_factory=list, init=False)

    def wait_compiled(self, number: int) -> None:
        """Wait until the first case of the plan with a number, from 0, is compiled."""
        self.process.wait(2 * number - 1, self.seconds)

    def add(self, plan: Plan, number: int) -> None:
        """Record the number of a plan."""
        self._steps.append((plan, 2 * number))

    def wait_translated(self, plan: Plan) -> None:
        """Wait until the code of a plan's cases is translated."""
        self.process.wait(next((steps for one, steps in self._steps if one is plan), 0), self.seconds)

    def close(self) -> None:
        """End the process."""
        self.process.close()


def _threads() -> int:
    """Return the number of threads of this process, those of native code included where the system lists them."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return threading.active_count()


def start_ahead(steps: Sequence[Callable[[], object]]) -> Ahead | None:
    """Fork a process that does the steps in order, up to the first that fails; None if there is no core for it.

    None also where another thread runs, such as OpenMP's after the user's module has computed with PyTorch: a lock that
    it holds would stay locked in the child.
    """
    if not steps or len(os.sched_getaffinity(0)) < 2 or _threads() > 1:
        return None
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(write)
        return Ahead(pid, read)
    try:
        os.close(read)
        for step in steps:
            step()
            os.write(write, _DONE)
    finally:
        # Whatever was raised: the caller's handlers and exit functions are this process's parent's.
        os._exit(0)
