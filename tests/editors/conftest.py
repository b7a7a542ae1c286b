"""Fixtures of the editor tests: each drives a real editor in its own project and home directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.editor_project import EditorProject, isolated_environment, make_project

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
    return isolated_environment(tmp_path)
