"""What we ask of Linux beyond the standard library: process trees that cannot outlive us, and resource limits."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
from collections.abc import Collection
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # prctl(2)
_PR_SET_CHILD_SUBREAPER = 36
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies. ``parent`` is the pid it was forked from."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, whatever its session or group (prctl(2))."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def flush_c_streams() -> None:
    """Write out what C code has printed but not flushed."""
    _libc.fflush(None)


def give_memory_back() -> None:
    """Have the allocator return what is freed: one heap for all threads, large blocks mapped on their own.

    For a process that lives for days and shares texts and messages between threads. By default glibc keeps a heap per
    thread, and each stays as large as it once was.
    """
    with contextlib.suppress(AttributeError):  # another libc
        for parameter, value in ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, 1 << 16), (_M_TRIM_THRESHOLD, 1 << 17)):
            _libc.mallopt(parameter, value)


def limit(kind: int, value: int | None) -> None:
    """Lower one soft and hard resource limit; never raise it above what we were given."""
    if value is None:
        return
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def prefer_as_oom_victim() -> None:
    """Ask the OOM killer to take this process before the editor, and before the process that watches over it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def resident_bytes() -> int:
    """Return the resident set size of this process (proc(5), statm)."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def children() -> list[int]:
    """Return the pids of this process' direct children, zombies included (proc(5), stat: field 4 is the parent)."""
    me = str(os.getpid())
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(entry.path, "stat").read_bytes()
                # The command, in parentheses, may itself hold spaces and parentheses: fields count from the last one.
                if stat[stat.rindex(b")") + 2 :].split()[1].decode() == me:
                    found.append(int(entry.name))
    return found


def has_children() -> bool:
    """Say whether any child is left, without reaping it."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_children(spare: Collection[int] = (), seconds: float = 1.0) -> bool:
    """Kill and reap all children but those in ``spare``, and, as they become ours, their descendants.

    Needs :func:`adopt_orphans`. Gives up after ``seconds``: a process in uninterruptible sleep cannot be waited for.

    Returns
    -------
    bool
        Whether there was any.
    """
    deadline = time.monotonic() + seconds
    found = False
    while time.monotonic() < deadline:
        victims = [pid for pid in children() if pid not in spare]
        if not victims:
            break
        found = True
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in victims:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)
    return found
