"""The skill for coding agents: its file, its installation, and that what it names exists."""

from __future__ import annotations

import re

import pytest

from gpuemu_lsp.cli.gpuemu import main
from gpuemu_lsp.mcp.tools import TOOLS
from gpuemu_lsp.skill import skill_text


def test_the_skill_is_installed_and_updated_and_nothing_else_is_overwritten(tmp_path, capsys):
    path = tmp_path / "gpuemu" / "SKILL.md"
    assert main(["skill", "install", "--to", str(tmp_path)]) == 0
    assert path.read_text() == skill_text() and str(path) in capsys.readouterr().out
    path.write_text("---\nname: gpuemu\n---\nolder\n")
    assert main(["skill", "install", "--to", str(tmp_path)]) == 0
    assert path.read_text() == skill_text()
    path.write_text("---\nname: mine\n---\n")
    assert main(["skill", "install", "--to", str(tmp_path)]) == 2
    assert "name another folder with --to" in capsys.readouterr().err
    assert path.read_text() == "---\nname: mine\n---\n"


def test_the_skill_names_tools_and_results_that_exist():
    named = set(re.findall(r"`(\w+)`", skill_text()))
    tools = {tool.name: tool for tool in TOOLS}
    assert {"check", "explain", "reproduce", "register", "compare", "coverage", "counters"} <= named & tools.keys()
    check = tools["check"].result["properties"]
    for field in ("verdict", "did_not_run", "changed_since_commit"):
        assert field in check and field in named
    head = skill_text().split("---\n")[1]
    assert head.startswith("name: gpuemu\ndescription: ") and len(head) < 1200


@pytest.mark.parametrize("verdict", ["clean", "wrong", "unsafe", "not-checked"])
def test_the_skill_says_what_each_verdict_means(verdict):
    assert f"`{verdict}`" in skill_text()
