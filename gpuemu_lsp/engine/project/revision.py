"""The git commit of a project, and which files differ from it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Revision:
    """The full id of a commit, and whether tracked files differ from it."""

    commit: str
    dirty: bool


def revision(folder: str) -> Revision | None:
    """Return the commit checked out in ``folder``; None outside of a repository, or without git."""
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return None if not commit or changes is None else Revision(commit.strip(), bool(changes.strip()))


def changed_files(paths: Iterable[str]) -> dict[str, str]:
    """Return the files that are not as in the last commit of their repository: ``changed``, or not in it.

    Files outside of a repository are left out.
    """
    states = {}
    for path in paths:
        folder, name = Path(path).parent, Path(path).name
        status = _git(str(folder), "status", "--porcelain", "--ignored", "--untracked-files=all", "--", name)
        if status:
            states[path] = "not in the repository" if status[:2] in ("??", "!!") else "changed"
    return states


def _git(folder: str, *arguments: str) -> str | None:
    command = ["git", "-C", folder, "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    # core.fsmonitor may name a program of the repository, which is not to be run.
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None
