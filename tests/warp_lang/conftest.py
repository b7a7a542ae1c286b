"""Warp has an environment of its own: `make test-warp`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if collection_path.suffix != ".py" or collection_path.name == "conftest.py":
        return None
    try:
        import warp  # noqa: F401
    except ImportError:
        if os.environ.get("GPUEMU_REQUIRE_WARP"):
            raise
        return True
    return None


class Runner:
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


@pytest.fixture
def gpuemu_run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)
