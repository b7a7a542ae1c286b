"""Collects every mistake of one gpuemu.toml, each with its exact place."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.findings import Finding, Place, Range, Related
from gpuemu_lsp.engine.project.expressions import ExpressionError
from gpuemu_lsp.engine.project.tree import Path, TomlTree
from gpuemu_lsp.engine.project.words import shorten
from gpuemu_lsp.engine.rules import make

_WORD = re.compile(r"[A-Za-z0-9_]+|//|\*\*|\S")


class Reporter:
    """The findings of one file, in the order they were made. ``kernel`` names the entry that is being read."""

    def __init__(self, config: str, tree: TomlTree) -> None:
        self.tree = tree
        self.findings: list[Finding] = []
        self.kernel: str | None = None
        self._config = config

    def place(self, path: Path) -> Place:
        """Return where the value of a path stands."""
        return Place(self._config, self.tree.value(path))

    def unknown_key(self, path: Path, message: str) -> None:
        """Report a key that means nothing, on the key."""
        self._add("config/unknown-key", message, self.tree.key(path))

    def missing_key(self, table: Path, message: str) -> None:
        """Report an absent key, on the header of the table that lacks it."""
        self._add("config/missing-key", message, self.tree.value(table))

    def missing_file(self, path: Path, message: str) -> None:
        """Report a path with nothing usable behind it."""
        self._add("config/missing-file", message, self.tree.value(path))

    def bad_key(self, path: Path, message: str) -> None:
        """Report a key that cannot stand where it does, although its name is known."""
        self._add("config/bad-value", message, self.tree.key(path))

    def bad_value(self, path: Path, message: str, related: tuple[Related, ...] = ()) -> None:
        """Report a value that cannot be used, on the value."""
        self._add("config/bad-value", message, self.tree.value(path), related)

    def bad_part(self, path: Path, text: str, column: int, length: int, message: str) -> None:
        """Report ``text[column:column + length]`` of a string value."""
        self._add("config/bad-value", message, self.tree.inside(path, text, column, length))

    def bad_expression(self, path: Path, text: str, error: ExpressionError) -> None:
        """Report what an expression's parser or evaluator said, at the place it means."""
        said = error.message[0].upper() + error.message[1:]
        token = _WORD.match(text, error.column)
        if token is None:  # a number, or the error is that the text ends
            self.bad_value(path, f"{said}.")
        else:
            self.bad_part(path, text, error.column, len(token.group()), f"{said} (in `{shorten(text)}`).")

    def _add(self, rule: str, message: str, where: Range, related: tuple[Related, ...] = ()) -> None:
        self.findings.append(make(rule, message, Place(self._config, where), kernel=self.kernel, related=related))
