"""The links of diagnostics: a file in the cache, or the site that the environment names."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.rules import RULES
from gpuemu_lsp.server.diagnostics.rules_page import RulesPage


def test_without_a_site_every_rule_has_its_line_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path))
    page = RulesPage()
    for rule in RULES:
        file, _, line = page.href(rule).removeprefix("file://").partition("#L")
        assert Path(file).read_text("utf-8").split("\n")[int(line) - 1] == f"### {rule}"


def test_the_site_that_is_named_is_linked_and_no_file_written(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("GPUEMU_DOCS_URL", "https://docs.example.org/")
    assert RulesPage().href("memory/shared-race") == "https://docs.example.org/rules.html#memoryshared-race"
    assert not list(tmp_path.iterdir())


def test_a_damaged_page_is_written_again(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path))
    uri = RulesPage().href("memory/shared-race")
    page = Path(uri.removeprefix("file://").partition("#")[0])
    content = page.read_bytes()
    page.write_bytes(b"# Rules \xcb")
    assert RulesPage().href("memory/shared-race") == uri and page.read_bytes() == content
