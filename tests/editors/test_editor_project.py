"""The project of the editor tests has the properties that their scenarios assume."""

from __future__ import annotations

import json
import subprocess
import sys

from support.editor_project import EditorProject


def test_the_bug_is_on_the_marked_line_and_the_correct_counterpart_is_clean(
    project: EditorProject, editor_environment: dict[str, str]
) -> None:
    found = _check(project, editor_environment)
    assert {finding["range"]["start"]["line"] for finding in found["findings"]} == {project.bug_line}
    project.buggy.write_text(project.fixed)
    fixed = _check(project, editor_environment)
    assert fixed["findings"] == []
    assert fixed["summary"]["passed"] == 1


def _check(project: EditorProject, environment: dict[str, str]) -> dict:
    command = [sys.executable, "-m", "gpuemu_lsp", "--check", "row_softmax_buggy", "--format", "json"]
    done = subprocess.run(command, cwd=project.root, env=environment, capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout)
