"""Fixtures of the editor tests: each drives a real editor in its own project and home directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.editor_project import EditorProject, make_project

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.editors)


@pytest.fixture
def project(tmp_path: Path) -> EditorProject:
    return make_project(tmp_path / "project")


@pytest.fixture
def editor_environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of an unconfigured editor: an empty home, this Python first on PATH."""
    home = tmp_path / "home"
    home.mkdir()
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "GPUEMU_"))}
    cache = os.environ.get("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**ours, "HOME": str(home), "PATH": path, "GPUEMU_CACHE_DIR": cache}
