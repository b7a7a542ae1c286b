"""The extension in VS Code's workbench and extension host, with a real server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.editor_project import EditorProject
from vscode_setup import EXTENSION, Installed, build, installed

HERE = Path(__file__).parent
# Each test starts a workbench, a browser and a server, which are slow on a busy machine.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="session")
def tools() -> Installed:
    return installed()


@pytest.fixture(scope="session")
def vsix(tools: Installed) -> Path:
    return build(tools)


@pytest.fixture
def user_environment(editor_environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of a user who has installed the server by pipx: VS Code takes PATH from a login shell."""
    program = Path(editor_environment["HOME"], ".local/bin/gpuemu-lsp")
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).parent / "gpuemu-lsp")
    return editor_environment


def test_a_buggy_softmax_is_shown_reproduced_minimised_and_fixed(
    tmp_path: Path, tools: Installed, vsix: Path, project: EditorProject, user_environment: dict[str, str]
) -> None:
    output = _run(tools, "scenario.mjs", tmp_path, vsix, project, user_environment)
    assert "scenario passed" in output


def test_references_headers_configuration_and_pauses_are_shown_where_they_are_edited(
    tmp_path: Path, tools: Installed, vsix: Path, project: EditorProject, user_environment: dict[str, str]
) -> None:
    output = _run(tools, "authoring.mjs", tmp_path, vsix, project, user_environment)
    assert "scenario passed" in output


def test_kernels_in_python_files_are_shown_at_their_places_and_start_the_server(
    tmp_path: Path, tools: Installed, vsix: Path, project: EditorProject, user_environment: dict[str, str]
) -> None:
    output = _run(tools, "python.mjs", tmp_path, vsix, project, user_environment)
    assert "scenario passed" in output


def test_without_a_server_the_user_is_warned_and_offered_one(
    tmp_path: Path, tools: Installed, vsix: Path, project: EditorProject, editor_environment: dict[str, str]
) -> None:
    # The installation must start, but not download the package of this name from an index.
    nothing = {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1"}
    output = _run(tools, "missing.mjs", tmp_path, vsix, project, {**editor_environment, **nothing})
    assert "scenario passed" in output


def test_the_client_code_passes_its_tests_in_the_extension_host(
    tmp_path: Path, tools: Installed, vsix: Path, project: EditorProject, user_environment: dict[str, str]
) -> None:
    assert vsix.exists()  # the test bundle is built with it
    output = _run(tools, "host.mjs", tmp_path, vsix, project, user_environment)
    passed = re.search(r"^(\d+) passed$", output, re.MULTILINE)
    assert passed is not None and int(passed[1]) == output.count("\nok: ") + output.startswith("ok: ") > 0


def _run(
    tools: Installed,
    script: str,
    tmp_path: Path,
    vsix: Path,
    project: EditorProject,
    environment: dict[str, str],
) -> str:
    """Run a Node script with facts in its environment, and return its output."""
    shots = Path(os.environ.get("GPUEMU_SHOTS", tmp_path / "shots"))
    shots.mkdir(parents=True, exist_ok=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    facts = {
        "folder": str(project.root),
        "buggy": str(project.buggy),
        "scratch": str(scratch),
        "vsix": str(vsix),
        "python": sys.executable,
        "extension": str(EXTENSION),
        "bug_line": project.bug_line,
        "fixed": project.fixed,
    }
    variables = {
        "GPUEMU_EDITORS_DIR": str(tools.editors),
        "GPUEMU_CHROMIUM": tools.chromium,
        "GPUEMU_SHOTS": str(shots),
        "GPUEMU_TEST_FACTS": json.dumps(facts),
    }
    command = [str(tools.node), str(HERE / script)]
    done = subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nscreenshots: {shots}"
    return done.stdout
