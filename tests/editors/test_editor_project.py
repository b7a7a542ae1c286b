"""The project of the editor tests has the properties that their scenarios assume."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.editor_project import REQUIRED, EditorProject, without_editor

ROOT = Path(__file__).resolve().parents[2]


def test_the_bug_is_on_the_marked_line_and_the_correct_counterpart_is_clean(
    project: EditorProject, editor_environment: dict[str, str]
) -> None:
    found = _check(project, editor_environment)
    assert {finding["range"]["start"]["line"] for finding in found["findings"]} == {project.bug_line}
    project.buggy.write_text(project.fixed)
    fixed = _check(project, editor_environment)
    assert fixed["findings"] == []
    assert fixed["summary"]["passed"] == 1


def test_a_missing_editor_fails_its_tests_in_ci_and_skips_them_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRED, "1")
    with pytest.raises(pytest.fail.Exception, match="not installed"):
        without_editor("An editor is not installed")
    monkeypatch.delenv(REQUIRED)
    with pytest.raises(pytest.skip.Exception):
        without_editor("An editor is not installed")
    assert f"export {REQUIRED}=1" in (ROOT / ".ci/run").read_text()


def test_npm_ci_finds_every_package_of_every_platform_in_the_lock_file() -> None:
    lock = json.loads((ROOT / "editors/vscode/package-lock.json").read_text())
    packages = lock["packages"]
    wanted = {
        name
        for package in packages.values()
        for kind in ("dependencies", "optionalDependencies", "devDependencies")
        for name in package.get(kind, {})
    }
    assert {name for name in wanted if f"node_modules/{name}" not in packages} == set()
    assert {name for name, package in packages.items() if name and "integrity" not in package} == set()


def _check(project: EditorProject, environment: dict[str, str]) -> dict:
    command = [sys.executable, "-m", "gpuemu_lsp", "--check", "row_softmax_buggy", "--format", "json"]
    done = subprocess.run(command, cwd=project.root, env=environment, capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout)
