"""The Neovim plugin in a real, headless Neovim with a real server; each scenario is a Lua file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.editor_project import EditorProject, make_project
from support.neovim import run_scenario
from support.ptx_texts import ONE_TOO_MANY
from support.python_strings import copy_with_expectations
from support.recordings import MadeLaunch, record

from gpuemu_lsp import __version__

IN_SAMPLE = ("debug", "softmax")
SCENARIOS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.in_sample] if path.stem in IN_SAMPLE else [])
    for path in sorted((Path(__file__).parent / "scenarios").glob("*.lua"))
]


@pytest.fixture
def project(tmp_path: Path) -> EditorProject:
    """Make one in a folder whose name has characters special to globs, file patterns, URIs and shells."""
    return make_project(tmp_path / "kernels [of] us, 100% 'new'")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: Path, project: EditorProject, editor_environment: dict[str, str]) -> None:
    facts: dict[str, Any] = {"bug_line": project.bug_line, "fixed": project.fixed, "version": __version__}
    if scenario.stem == "ptx":
        facts["ptx"] = ONE_TOO_MANY
    if scenario.stem == "debug":
        facts["recorded"] = record_gelu(project)
        facts["nvim_dap"] = os.environ.get("GPUEMU_NVIM_DAP")
    if scenario.stem == "strings":
        facts["strings"] = copy_with_expectations(project.root.parent / "strings")
    run_scenario(scenario, project.root, editor_environment, facts)


def record_gelu(project: EditorProject) -> int:
    """Write a recording of a launch of ``gelu``, and return the number of its elements."""
    values = np.linspace(-2, 2, 37, dtype=np.float32)
    launch = MadeLaunch((values, np.zeros_like(values), len(values)), 1, 64, frozenset({1}))
    record(project.root / "ops/gelu.cu", "gelu<float>", [launch], project.root)
    return len(values)
