"""The documentation as a site: it builds without a broken link, and every rule has its place there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuemu_lsp.cli.main import main as gpuemu_lsp
from gpuemu_lsp.engine.rules import RULES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Build the site as ``make site`` does, and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_link_to_a_rule_has_its_target(site, monkeypatch):
    monkeypatch.setenv("GPUEMU_DOCS_URL", site.as_uri() + "/")
    targets = {name: rule.documentation.removeprefix("file://").split("#") for name, rule in RULES.items()}
    assert len({anchor for _, anchor in targets.values()}) == len(RULES)
    headings = {}
    for page in {page for page, _ in targets.values()}:
        text = Path(page).read_text("utf-8")
        headings[page] = dict(re.findall(r'<h3 id="([^"]+)">([^<]+)', text))
    wrong = {name for name, (page, anchor) in targets.items() if headings[page].get(anchor) != name}
    assert not wrong


def test_pages_load_nothing_from_another_host(site):
    loaded = re.compile(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="?(https?://[^">\s]+)')
    assert not {
        (page.name, address) for page in site.rglob("*.html") for address in loaded.findall(page.read_text("utf-8"))
    }


def test_the_first_check_has_the_documented_results(tmp_path, monkeypatch, capsys):
    """Files of the page are written in order, and each command gives the finding and the exit code shown."""
    page = (ROOT / "docs/first-check.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    commands = 0
    for block in re.finditer(r"(?:`([\w.]+)`(?:, line (\d+))?:\n\n)?```(\w+)\n(.*?)```", page, re.DOTALL):
        name, line, language, text = block.groups()
        if language == "console":
            commands += 1
            command, *shown = text.splitlines()
            code = gpuemu_lsp(command.removeprefix("$ gpuemu-lsp ").split())
            output = re.sub(r" +", " ", capsys.readouterr().out)
            assert code == int(shown[-1])
            assert not [row for row in shown[:-2] if re.sub(r" +", " ", row).strip() not in output]
        elif line is None:
            Path(name).write_text(text)
        else:
            lines = Path(name).read_text().splitlines(keepends=True)
            lines[int(line) - 1] = text
            Path(name).write_text("".join(lines))
    assert commands == 4
