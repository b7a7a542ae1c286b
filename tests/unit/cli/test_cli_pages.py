"""Generated pages are current, and every rule and flag is documented."""

from __future__ import annotations

import re
from pathlib import Path

from gpuemu_lsp.cli import gpuemu, main
from gpuemu_lsp.cli.pages import pages
from gpuemu_lsp.engine.rules import RULES

DOCS = Path(__file__).parents[3] / "docs"


def test_generated_pages_are_current():
    # One test: CI runs a sample of the cases of a parametrised one.
    changed = [name for name, text in pages().items() if (DOCS / name).read_text() != text]
    assert not changed, "run: python -m gpuemu_lsp.cli.pages docs"


def test_every_rule_is_on_its_page():
    assert re.findall(r"^### (\S+)$", (DOCS / "rules.md").read_text(), re.MULTILINE) == list(RULES)


def flags(capsys, command, *verb):
    assert command([*verb, "--help"]) == 0
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help", "--version"}


VERBS = (
    "test",
    "judge",
    "skill",
    "mcp",
    "fuzz",
    "failures",
    "reproduce",
    "minimize",
    "lint",
    "status",
    "init",
    "report",
    "ci",
    "baseline",
    "diff",
    "verify",
    "doctor",
    "register",
    "coverage",
    "calibrate",
    "comment",
)


def test_every_flag_is_documented(capsys):
    text = (DOCS / "cli.md").read_text()
    known = flags(capsys, main.main).union(*(flags(capsys, gpuemu.main, verb) for verb in VERBS))
    documented = set(re.findall(r"`(?:-\w`, `)?(--[a-z][a-z-]*)", text))
    assert known <= documented
    assert documented <= known | {"--help", "--version"}
    assert all(f"`gpuemu {verb}" in text for verb in VERBS)
