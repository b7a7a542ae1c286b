"""A virtual environment with the installed package, and commands run in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installed:
    """A virtual environment."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of an activated shell; pip builds with the installed build backend."""
        ours = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        path = f"{self.root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**ours, "VIRTUAL_ENV": str(self.root), "PATH": path, "PIP_NO_BUILD_ISOLATION": "false"}

    def run(self, *command: str, cwd: Path = ROOT, variables: Mapping[str, str] | None = None, expect: int = 0) -> str:
        """Run a command, check its exit code, and return its output including standard error."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**self.environment, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
        assert done.returncode == expect, f"{command} ended with {done.returncode}\n{done.stdout}"
        return done.stdout
