"""Memory that this process can still use before the system ends a process for lack of it.

That is the memory of the machine, and of each control group of this process (cgroups(7)), of either version: a
container has a limit of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_UNLIMITED = 1 << 60
"""Limits from here on are none: version 1 writes the largest number of pages."""


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Bytes that can still be used, and the bytes of the machine, or of the control group that has least left."""

    available: int
    total: int


@dataclass(frozen=True, slots=True)
class _Group:
    """A control group's files: its limit, what it uses, and the word of its statistics for what can be given up."""

    limit: Path
    usage: Path
    statistics: Path
    reclaimable: bytes
    kills: Path


def memory_state() -> MemoryState:
    """Return the memory that is left, swap space included: it is used up before a process is ended."""
    fields = _fields(Path("/proc/meminfo"))
    total, free_swap = fields.get(b"MemTotal:", 0) << 10, fields.get(b"SwapFree:", 0) << 10
    state = MemoryState((fields.get(b"MemAvailable:", 0) << 10) + free_swap, total)
    for group in _groups():
        limit, usage = _number(group.limit), _number(group.usage)
        if limit is not None and usage is not None and limit < min(_UNLIMITED, total):
            given_up = _fields(group.statistics).get(group.reclaimable, 0)
            left = max(limit - usage, 0) + given_up + free_swap
            state = min(state, MemoryState(left, limit), key=lambda one: one.available)
    return state


def kills_for_memory() -> int:
    """Return how many processes the system has ended for lack of memory, of this machine or of our control groups."""
    everywhere = _fields(Path("/proc/vmstat")).get(b"oom_kill", 0)
    return everywhere + sum(_fields(group.kills).get(b"oom_kill", 0) for group in _groups())


def resident_bytes() -> int:
    """Return the memory that this process uses, with what it shares with others."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@cache
def _groups() -> tuple[_Group, ...]:
    """Return the control groups of this process with a limit of memory, and those that contain them."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    return tuple(group for line in lines for group in _groups_of(line))


def _groups_of(line: str) -> Iterator[_Group]:
    _, controllers, path = line.split(":", 2)
    if controllers and "memory" not in controllers.split(","):
        return
    root = Path("/sys/fs/cgroup/memory") if controllers else Path("/sys/fs/cgroup")
    folder = root / path.lstrip("/")
    for one in (folder, *folder.parents):
        if not one.is_relative_to(root):
            return
        if controllers and (one / "memory.limit_in_bytes").exists():
            statistics, kills = one / "memory.stat", one / "memory.oom_control"
            yield _Group(
                one / "memory.limit_in_bytes", one / "memory.usage_in_bytes", statistics, b"total_inactive_file", kills
            )
        elif not controllers and (one / "memory.max").exists():
            statistics, kills = one / "memory.stat", one / "memory.events"
            yield _Group(one / "memory.max", one / "memory.current", statistics, b"inactive_file", kills)


def _fields(path: Path) -> dict[bytes, int]:
    """Return the lines of a file, a word and a number each."""
    found = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in path.read_bytes().splitlines():
            words = line.split()
            found[words[0]] = int(words[1])
    return found


def _number(path: Path) -> int | None:
    try:
        text = path.read_bytes().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
