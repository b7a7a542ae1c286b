"""Collection of the findings of one gpuemu.toml, each with its exact position."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.findings import Finding, Place, Range, Related
from gpuemu_lsp.engine.project.expressions import ExpressionError
from gpuemu_lsp.engine.project.message_text import shorten
from gpuemu_lsp.engine.project.tree import Path, TomlTree
from gpuemu_lsp.engine.rules import make

_WORD = re.compile(r"[A-Za-z0-9_]+|//|\*\*|\S")


class Reporter:
    """The findings of one file.

    ``kernel`` names the entry that is being read. ``count`` is how many mistakes were reported so far; a mistake in an
    inherited value is counted for every entry that has it and reported once.
    """

    def __init__(self, config: str, tree: TomlTree) -> None:
        self.tree = tree
        self.kernel: str | None = None
        self.count = 0
        self._config = config
        self._own: list[Finding] = []
        self._inherited: list[Finding] = []

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings in the order of the text.

        A mistake in an inherited value is reported for the entry it is written in; for a derived entry only where it is
        a mistake in combination with the derived entry's own values.
        """
        known = {_identity(finding) for finding in self._own}
        found = list(self._own)
        for finding in self._inherited:
            if _identity(finding) not in known:
                known.add(_identity(finding))
                found.append(finding)
        return tuple(sorted(found, key=lambda finding: finding.place.range))

    def place(self, path: Path) -> Place:
        """Return the place of the value at a path."""
        return Place(self._config, self.tree.value(path))

    def unknown_key(self, path: Path, message: str, suggestion: str | None = None) -> None:
        """Report an unknown key, on the key; ``suggestion`` is the known one that it may stand for."""
        self._add("config/unknown-key", message, path, self.tree.key(path), suggestion=suggestion)

    def missing_key(self, table: Path, message: str) -> None:
        """Report a missing key, on the header of the table."""
        self._add("config/missing-key", message, table, self.tree.value(table))

    def missing_file(self, path: Path, message: str, suggestion: str | None = None) -> None:
        """Report a file that does not exist or cannot be used, on the value."""
        self._add("config/missing-file", message, path, self.tree.value(path), suggestion=suggestion)

    def bad_key(self, path: Path, message: str) -> None:
        """Report a known key that is invalid in combination with others, on the key."""
        self._add("config/bad-value", message, path, self.tree.key(path))

    def bad_value(
        self, path: Path, message: str, related: tuple[Related, ...] = (), suggestion: str | None = None
    ) -> None:
        """Report an invalid value, on the value."""
        self._add("config/bad-value", message, path, self.tree.value(path), related, suggestion)

    def bad_part(
        self, path: Path, text: str, part: tuple[int, int], message: str, suggestion: str | None = None
    ) -> None:
        """Report a part of a string value, which is its column and its length in characters."""
        self._add("config/bad-value", message, path, self.tree.inside(path, text, *part), suggestion=suggestion)

    def bad_expression(self, path: Path, text: str, error: ExpressionError) -> None:
        """Report an error of an expression's parser or evaluator, on the token."""
        reason = error.message[0].upper() + error.message[1:]
        token = _WORD.match(text, error.column)
        if token is None:  # the text is an integer, or ends too early
            self.bad_value(path, f"{reason}.")
        else:
            self.bad_part(path, text, (error.column, len(token.group())), f"{reason} (in `{shorten(text)}`).")

    def _add(
        self,
        rule: str,
        message: str,
        path: Path,
        where: Range,
        related: tuple[Related, ...] = (),
        suggestion: str | None = None,
    ) -> None:
        self.count += 1
        inherited = self.tree.is_inherited(path)
        if inherited:
            like = self.place((*path[:2], "like"))
            related = (*related, Related(like, f"inherited by `{shorten(self.kernel or '')}`"))
        data = {} if suggestion is None else {"suggestion": suggestion}
        finding = make(rule, message, Place(self._config, where), kernel=self.kernel, related=related, data=data)
        (self._inherited if inherited else self._own).append(finding)


def _identity(finding: Finding) -> tuple[str, str, Place]:
    return finding.rule, finding.message, finding.place
