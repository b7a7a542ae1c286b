"""A script that runs a command and ends every process that descends from it.

It ends them when the command has ended, when it receives SIGTERM, and when the process that started it is gone, however
that one was killed; then it also removes that one's temporary folders. It uses the standard library only, and runs with
``python -I -S``. Its arguments are the process that starts it, a descriptor for its reports, or -1, the number of
folders, these folders, and the command. A report is a line: ``error ERRNO`` if the command cannot be started, ``ended
STATUS`` (of ``wait``) when it ends, and ``left COUNT`` for the processes that it left running.

Nothing is looked at in intervals: signals and the end of the process that started it wake it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_INTERVAL_MS = 200
"""Time after which a system without descriptors of processes (pidfd_open(2), before Linux 5.3) is asked again."""
_GRACE_SECONDS = 1.0
"""Time for processes that the command has left behind to end by themselves."""
_NOT_STARTED = 127
_NO_RESULT = (
    b"gpuemu: gpuemu itself was killed, and there is no result. The system does that when it has no memory left: use "
    b"smaller arguments, or set a limit with `gpuemu run --memory`\n"
)


class _Events:
    """What wakes this process: SIGCHLD, SIGTERM, and the end of the process that started it, ``parent``."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self.terminated = False
        self._signals, write = os.pipe()
        for descriptor in (self._signals, write):
            os.set_blocking(descriptor, False)
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._terminate)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD, signal.SIGTERM))
        self._timeout: int | None = None
        self._process: int | None = None
        try:
            self._process = os.pidfd_open(parent)
            self._poll.register(self._process, select.POLLIN)
        except ProcessLookupError:
            pass
        except OSError:
            self._timeout = _INTERVAL_MS

    @property
    def orphaned(self) -> bool:
        """Whether the process that started this one has ended."""
        if self._process is None:
            return os.getppid() != self._parent
        ended = select.poll()
        ended.register(self._process, select.POLLIN)
        # It has ended when its descriptor says so: its children have another parent a little later.
        return bool(ended.poll(0)) or os.getppid() != self._parent

    def wait(self, until: float | None = None) -> None:
        """Wait for one of the events, at most until a monotonic time."""
        left = None if until is None else max(int((until - time.monotonic()) * 1e3) + 1, 0)
        times = [one for one in (left, self._timeout) if one is not None]
        if (self._signals, select.POLLIN) in self._poll.poll(min(times) if times else None):
            with contextlib.suppress(BlockingIOError):
                os.read(self._signals, 1 << 10)

    def _terminate(self, _number: int, _frame: object) -> None:
        self.terminated = True


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status as a shell shows it."""
    parent, report, folders = int(arguments[0]), int(arguments[1]), int(arguments[2])
    temporary, command = arguments[3 : 3 + folders], arguments[3 + folders :]
    # The signals of the terminal go to the command as well, and what it does with them is its own matter.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP))
    events = _Events(parent)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    if report >= 0:
        os.set_inheritable(report, False)
        _limit_memory()
    try:
        child = os.posix_spawnp(
            command[0], command, os.environ, setsigmask=(), setsigdef=(signal.SIGPIPE, signal.SIGXFSZ)
        )
    except OSError as error:
        _report(report, f"error {error.errno}")
        return _NOT_STARTED
    status = _wait(child, events)
    if status is None:
        _end_descendants()
        if events.orphaned:
            _remove(temporary)
            _say_no_result()
        return 128 + signal.SIGKILL
    heard = _report(report, f"ended {status}")
    _report(report, f"left {_end_left(events)}")
    if not heard or _is_orphaned(events, status):
        _remove(temporary)
        _say_no_result()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _wait(child: int, events: _Events) -> int | None:
    """Return the status with which the command ends, None if it is to be ended."""
    while not (events.terminated or events.orphaned):
        for pid, status in _reaped():
            if pid == child:
                return status
        events.wait()
    return None


def _reaped() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    return found


def _children() -> list[int]:
    """Return our children; those of a process that has ended are among them, as this process is a subreaper."""
    own, found = os.getpid(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[1]) == own and fields[0] != b"Z":
                    found.append(int(entry.name))
    return found


def _end_left(events: _Events) -> int:
    """Wait for what the command has left behind, then end it; return the number of processes that were ended."""
    until = time.monotonic() + _GRACE_SECONDS
    while _children() and time.monotonic() < until and not (events.terminated or events.orphaned):
        events.wait(until)
        _reaped()
    return _end_descendants()


def _end_descendants() -> int:
    """End all descendants, generation by generation; return their number."""
    count = 0
    while children := _children():
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        count += len(children)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
    _reaped()
    return count


def _limit_memory() -> None:
    """Make allocations beyond the memory of the machine fail in the command, instead of exhausting the machine."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = physical if most == resource.RLIM_INFINITY else min(physical, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _remove(folders: list[str]) -> None:
    if folders:
        import shutil

        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _is_orphaned(events: _Events, status: int) -> bool:
    """Return whether our parent has ended; SIGHUP reaches the command a little before that of a session's leader."""
    until = time.monotonic() + _GRACE_SECONDS
    hung_up = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGHUP
    while hung_up and not events.orphaned and not events.terminated and time.monotonic() < until:
        events.wait(until)
    return events.orphaned


def _say_no_result() -> None:
    """Write to standard error, unless it is full: waiting for a reader would leave this process behind."""
    poll = select.poll()
    with contextlib.suppress(OSError):
        poll.register(2, select.POLLOUT)
        if any(event == select.POLLOUT for _, event in poll.poll(0)):
            os.write(2, _NO_RESULT)


def _report(descriptor: int, line: str) -> bool:
    """Write a report; return whether there is a reader for it."""
    try:
        if descriptor >= 0:
            os.write(descriptor, f"{line}\n".encode())
    except BrokenPipeError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
