"""Emacs' eglot, a third-party client, configured with the snippet of docs/editors.md."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

from support.editor_project import EditorProject, without_editor

HERE = Path(__file__).parent
GUIDE = HERE.parents[2] / "docs/editors.md"
OLDEST = 29
"""The first Emacs that includes eglot."""


def test_eglot_shows_the_finding_and_sees_it_go(
    tmp_path: Path, project: EditorProject, editor_environment: dict[str, str]
) -> None:
    emacs = shutil.which("emacs")
    if emacs is None or _major(emacs) < OLDEST:
        without_editor(f"Emacs {OLDEST} or later is not installed (tests/editors/install_emacs.sh)")
    setup = tmp_path / "setup.el"
    setup.write_text(_snippet("Emacs"))
    facts = {"file": str(project.buggy), "bug_line": project.bug_line, "fixed": project.fixed}
    environment = {**editor_environment, "GPUEMU_TEST_SETUP": str(setup), "GPUEMU_TEST_FACTS": json.dumps(facts)}
    command = [emacs, "--batch", "-Q", "-l", str(HERE / "scenario.el")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "scenario passed" in done.stdout


def _major(emacs: str) -> int:
    output = subprocess.run([emacs, "--version"], capture_output=True, text=True, timeout=30).stdout
    found = re.search(r"GNU Emacs (\d+)", output)
    return int(found[1]) if found else 0


def _snippet(editor: str) -> str:
    """Return the first indented block of an editor's section of the guide."""
    section = re.split(rf"^## {editor}.*$", GUIDE.read_text(), flags=re.MULTILINE)[1].split("\n## ")[0]
    block = re.search(r"^(?: {4}.*\n)+", section, flags=re.MULTILINE)
    assert block is not None
    return textwrap.dedent(block[0])
