"""The target of every diagnostic's link: the site of the documentation, or a Markdown file in the user's cache."""

from __future__ import annotations

import logging

from pygls.uris import from_fs_path

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.cache_folder import CacheFolder, cache_root
from gpuemu_lsp.engine.report.catalogue import rules_page
from gpuemu_lsp.engine.rules import RULES

_log = logging.getLogger(__name__)
_MAX_BYTES = 4 << 20
"""Pages of all versions together."""


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
        text, name = rules_page(), f"rules-{__version__}.md"
        content = text.encode()
        pages = CacheFolder(cache_root() / "pages", _MAX_BYTES, 1)
        if pages.read(name) != content:
            pages.write(name, content)
            if pages.read(name) != content:
                _log.warning("the page of the rules cannot be written to %s", pages.path)
                return {}
        self._uri = from_fs_path(str((pages.path / name).absolute()))
        headings = (line.removeprefix("### ") for line in text.split("\n"))
        return {line: number for number, line in enumerate(headings, 1) if "/" in line and " " not in line}
