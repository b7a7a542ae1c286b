"""Live descendants of a process, read from /proc."""

from __future__ import annotations

import contextlib
from pathlib import Path


def descendants(pid: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def workers(server: int) -> set[int]:
    """The workers of a language server: children of its fork server."""
    fork_servers = children(server)
    return {pid for pid in descendants(server) if _parent(pid) in fork_servers}


def children(pid: int) -> set[int]:
    return {child for child in descendants(pid) if _parent(child) == pid}


def busy(server: int) -> set[int]:
    """The workers that are running; idle ones sleep."""
    return {pid for pid in workers(server) if _state(pid) == "R"}


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0]
    return "gone"


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int((Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


def alive(pids: set[int]) -> set[int]:
    living = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                living.add(pid)
    return living


def resident_mb(pid: int) -> float:
    for line in (Path("/proc") / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0
