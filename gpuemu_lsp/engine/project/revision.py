"""The git commit of a project."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

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


def _git(folder: str, *arguments: str) -> str | None:
    command = ["git", "-C", folder, "--no-optional-locks", *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None
