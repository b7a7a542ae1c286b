"""Linux system calls for process trees, resource limits and memory, beyond the standard library."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable, Collection
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
    """Have the kernel kill this process when its parent dies (``PR_SET_PDEATHSIG``).

    ``parent`` is the pid that this process was forked from.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call above
        os._exit(1)


def become_subreaper() -> None:
    """Become the parent of every descendant whose own parent ends, whatever its session or group (prctl(2))."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def flush_c_streams() -> None:
    """Flush all stdio streams of C code."""
    _libc.fflush(None)


def return_freed_memory() -> None:
    """Configure glibc to return freed memory: one arena for all threads, large blocks mapped individually.

    For a process that runs for days and passes texts and messages between threads. By default glibc has an arena per
    thread, and each keeps its peak size (mallopt(3)).
    """
    with contextlib.suppress(AttributeError):  # another libc
        for parameter, value in ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, 1 << 16), (_M_TRIM_THRESHOLD, 1 << 17)):
            _libc.mallopt(parameter, value)


def limit(kind: int, value: int | None) -> None:
    """Lower the soft and hard value of one resource limit; never raise it above the current hard value."""
    if value is None:
        return
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def prefer_as_oom_victim() -> None:
    """Raise this process' OOM score, so that the OOM killer takes it before the editor and the fork server."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def resident_bytes() -> int:
    """Return the resident set size of this process (proc(5), statm)."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def children() -> list[int]:
    """Return the pids of the direct children of this process, zombies included."""
    me = os.getpid()
    return [pid for pid, (_, parent) in _processes().items() if parent == me]


def _processes() -> dict[int, tuple[str, int]]:
    """Return state and parent of all processes by pid (proc(5), stat: fields 3 and 4)."""
    values = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(entry.path, "stat").read_bytes()
                # The command, in parentheses, may contain spaces and parentheses: count fields from the last
                # parenthesis.
                state, parent, *_ = stat[stat.rindex(b")") + 2 :].split()
                values[int(entry.name)] = (state.decode(), int(parent))
    return values


def descendants(root: int) -> list[int]:
    """Return the pids of all descendants of a process, without zombies."""
    processes = _processes()
    below = {root}
    while more := {pid for pid, (_, parent) in processes.items() if parent in below} - below:
        below |= more
    return [pid for pid in below - {root} if processes[pid][0] != "Z"]


def marked(mark: bytes) -> list[int]:
    """Return the pids of processes of this user that started with ``mark`` in their environment, without zombies.

    A forked process has the environment of the program it was forked from (proc(5), environ).
    """
    processes = []
    for pid, (state, _) in _processes().items():
        with contextlib.suppress(OSError):
            if state != "Z" and pid != os.getpid() and mark in Path(f"/proc/{pid}/environ").read_bytes():
                processes.append(pid)
    return processes


def kill_all(find: Callable[[], Collection[int]], seconds: float = 1.0) -> None:
    """Kill the processes that ``find`` returns until it returns none, for at most ``seconds``."""
    deadline = time.monotonic() + seconds
    while (victims := find()) and time.monotonic() < deadline:
        for pid in victims:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


_kept: set[int] = set()


def keep_child(pid: int, *, kept: bool = True) -> None:
    """Let a child of this process outlive the job that started it, or no longer.

    It serves later jobs of this worker, which run the same user's code, and executes none of it itself.
    """
    (_kept.add if kept else _kept.discard)(pid)


def kept_children() -> frozenset[int]:
    """Return the children that outlive their jobs."""
    return frozenset(_kept)


def has_children() -> bool:
    """Return whether there is any child, without reaping it."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_children(spare: Collection[int] = (), seconds: float = 1.0) -> bool:
    """Kill and reap all children except ``spare``, and their descendants as these become children of this process.

    Needs :func:`become_subreaper`. Stops after ``seconds``: a process in uninterruptible sleep cannot be waited for.

    Returns
    -------
    bool
        Whether there was any child to kill.
    """
    deadline = time.monotonic() + seconds
    killed = False
    while time.monotonic() < deadline:
        victims = [pid for pid in children() if pid not in spare]
        if not victims:
            break
        killed = True
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in victims:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)
    return killed
