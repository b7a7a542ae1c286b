"""Triton kernels, and PyTorch models next to their CUDA versions, in VS Code's workbench and extension host."""

from __future__ import annotations

import pytest
from support.model_pairs import BIAS
from support.untrusted import make_untrusted
from support.vscode import SCRIPTS, assert_all_passed, build, installed, run_script, with_server

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


def test_the_representations_of_the_compiler_are_shown_next_to_the_source(
    tmp_path, tools, vsix, project, user_environment
):
    facts = {**project.facts, "vsix": str(vsix)}
    output = run_script(tools, SCRIPTS / "triton-ir.mjs", tmp_path, user_environment, facts)
    assert "scenario passed" in output


def test_a_model_and_its_kernel_are_compared_once_the_lightbulb_has_registered_it(
    tmp_path, tools, vsix, user_environment
):
    assert vsix.exists()  # the test bundle is built with it
    folder = tmp_path / "pair"
    folder.mkdir()
    (folder / "model.py").write_text(BIAS, encoding="utf-8")
    facts = {"folder": str(folder), "suite": "pairs"}
    assert_all_passed(run_script(tools, SCRIPTS / "host.mjs", tmp_path, user_environment, facts))


def test_in_restricted_mode_nothing_of_the_folder_is_imported(tmp_path, tools, vsix, user_environment):
    folder = tmp_path / "theirs"
    imported = make_untrusted(folder, shadows=False)
    facts = {"folder": str(folder), "imported": str(imported), "vsix": str(vsix)}
    output = run_script(tools, SCRIPTS / "restricted.mjs", tmp_path, user_environment, facts)
    assert "scenario passed" in output
