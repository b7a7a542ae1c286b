"""A registered Triton kernel in a real, headless Neovim."""

from __future__ import annotations

from pathlib import Path

from support.neovim import run_scenario


def test_a_missing_mask_is_shown_and_corrected(project, editor_environment):
    run_scenario(Path(__file__).with_name("triton.lua"), project.root, editor_environment, project.facts)
