"""Tests of languages whose programs run under ``gpuemu run``, each in an environment of its own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def ignores_collection(path: Path, module: str, required: str) -> bool | None:
    """Return True for a test module where a package is not installed, None for all else.

    Raises
    ------
    ImportError
        If the variable ``required`` is set, so that the make target does not pass without the package.
    """
    if path.suffix != ".py" or path.name == "conftest.py":
        return None
    try:
        importlib.import_module(module)
    except ImportError:
        if os.environ.get(required):
            raise
        return True
    return None


class ProgramRunner:
    """Runs scripts under ``gpuemu run``; returns the program's output and the report."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, script: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
        report = self._folder / "report.json"
        command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", "--format", "json", "--output", str(report)]
        done = subprocess.run(
            [*command, str(script), "--", *arguments], capture_output=True, text=True, timeout=240, check=False
        )
        assert report.exists(), done.stderr
        return done.stdout + done.stderr, json.loads(report.read_text())


def expected_findings(script: Path) -> set[tuple[int, str]]:
    """Return 0-based lines and rules of the comments ``# expect: RULE`` of a script."""
    return {
        (number, rule)
        for number, line in enumerate(script.read_text().splitlines())
        if "# expect: " in line
        for rule in line.partition("# expect: ")[2].split()
    }


def found(report: dict[str, Any]) -> set[tuple[int, str]]:
    """Return 0-based lines and rules of the findings of a report."""
    return {(finding["range"]["start"]["line"], finding["rule"]) for finding in report["findings"]}
