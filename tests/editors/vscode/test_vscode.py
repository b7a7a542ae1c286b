"""The extension in VS Code's workbench and extension host, with a real server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.editor_project import EditorProject
from support.ptx_texts import ONE_TOO_MANY
from support.python_strings import copy_with_expectations
from support.vscode import SCRIPTS, Installed, assert_all_passed, build, installed, run_script, with_server

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
    """Return the environment of a user who has installed the server by pipx."""
    return with_server(editor_environment)


def test_a_buggy_softmax_is_shown_reproduced_minimised_and_fixed(
    tmp_path: Path, tools: Installed, vsix: Path, project: EditorProject, user_environment: dict[str, str]
) -> None:
    output = _run(tools, "scenario.mjs", tmp_path, vsix, project, user_environment)
    assert "scenario passed" in output


@pytest.mark.in_sample
def test_a_failing_case_is_debugged_from_its_code_lens(
    tmp_path: Path, tools: Installed, vsix: Path, project: EditorProject, user_environment: dict[str, str]
) -> None:
    output = _run(tools, "debugger.mjs", tmp_path, vsix, project, user_environment)
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
    assert_all_passed(output)


def test_kernels_in_strings_of_every_form_are_diagnosed_at_their_ranges(
    tmp_path: Path, tools: Installed, vsix: Path, user_environment: dict[str, str]
) -> None:
    assert vsix.exists()
    folder = tmp_path / "strings"
    expected = copy_with_expectations(folder)
    environment = {**user_environment, "GPUEMU_TEST_EXPECTED": json.dumps(expected)}
    facts = {"folder": str(folder), "suite": "strings"}
    output = run_script(tools, SCRIPTS / "host.mjs", tmp_path, environment, facts)
    assert_all_passed(output)
    assert f"{len(expected) + 1} passed" in output


def _run(
    tools: Installed,
    script: str,
    tmp_path: Path,
    vsix: Path,
    project: EditorProject,
    environment: dict[str, str],
) -> str:
    """Run a Node script with facts about the project in its environment, and return its output."""
    facts = {
        "folder": str(project.root),
        "buggy": str(project.buggy),
        "vsix": str(vsix),
        "python": sys.executable,
        "suite": "client",
        "bug_line": project.bug_line,
        "fixed": project.fixed,
        "ptx": ONE_TOO_MANY,
    }
    return run_script(tools, SCRIPTS / script, tmp_path, environment, facts)
