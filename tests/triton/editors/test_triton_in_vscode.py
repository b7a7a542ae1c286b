"""A registered Triton kernel in VS Code's workbench."""

from __future__ import annotations

import pytest
from support.vscode import SCRIPTS, build, installed, run_script, with_server

# Each test starts a workbench, a browser and a server, which are slow on a busy machine.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def tools():
    return installed()


@pytest.fixture(scope="module")
def vsix(tools):
    return build(tools)


@pytest.fixture
def user_environment(editor_environment):
    return with_server(editor_environment)


def test_a_missing_mask_is_shown_and_corrected(tmp_path, tools, vsix, project, user_environment):
    facts = {**project.facts, "vsix": str(vsix)}
    output = run_script(tools, SCRIPTS / "triton.mjs", tmp_path, user_environment, facts)
    assert "scenario passed" in output
