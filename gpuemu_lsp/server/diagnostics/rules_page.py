"""The target of every diagnostic's link: the site of the documentation, or a Markdown file in the user's cache."""

from __future__ import annotations

import logging

from pygls.uris import from_fs_path

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.cache_folder import cache_root
from gpuemu_lsp.engine.report.catalogue import rules_page
from gpuemu_lsp.engine.rules import RULES

_log = logging.getLogger(__name__)


class RulesPage:
    """The file is written on first use; if that fails, diagnostics have no links."""

    def __init__(self) -> None:
        self._lines: dict[str, int] | None = None
        self._uri: str | None = None

    def href(self, rule: str) -> str | None:
        """Return the link to a rule's section; the fragment of a file is a line number, which editors understand."""
        site = RULES[rule].documentation if rule in RULES else None
        if site is not None:
            return site
        if self._lines is None:
            self._lines = self._write()
        line = self._lines.get(rule)
        return None if self._uri is None or line is None else f"{self._uri}#L{line}"

    def _write(self) -> dict[str, int]:
        """Write the file unless it is current; return the line of each rule's heading."""
        text = rules_page()
        path = cache_root() / f"rules-{__version__}.md"
        try:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        except OSError as error:
            _log.warning("the page of the rules cannot be written: %s", error)
            return {}
        self._uri = from_fs_path(str(path.absolute()))
        headings = (line.removeprefix("### ") for line in text.split("\n"))
        return {line: number for number, line in enumerate(headings, 1) if "/" in line and " " not in line}
