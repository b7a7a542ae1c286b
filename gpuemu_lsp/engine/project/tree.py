"""Source positions of the keys and values of a TOML text, which may be incomplete.

tomli parses the values without positions; tree-sitter has the positions, and recovers from syntax errors. A value is
identified by its path: ``("kernels", 0, "dims", "rows", "max")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import tomli
import tree_sitter
import tree_sitter_toml

from gpuemu_lsp.engine.findings import Position, Range

Path: TypeAlias = tuple[str | int, ...]

_LANGUAGE = tree_sitter.Language(tree_sitter_toml.language())
_MAX_DEPTH = 100
"""Deeper values than any known key have the position of their parent."""
_START = Range.of(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Spot:
    """The syntax at a position. ``part`` is "key", "value", or "table" for a header or a blank line of a table."""

    path: Path
    part: str
    range: Range


@dataclass(frozen=True, slots=True)
class TomlTree:
    """Ranges by path.

    ``keys`` has the range of the last part of a key, ``values`` that of the value; the value of a table with a header
    is the header with its brackets. ``headers`` are the tables opened by a header, in order of the text. ``inherited``
    maps the path of a value that an entry inherits (``like``) to the path at which it is written.
    """

    lines: list[bytes]
    keys: dict[Path, Range] = field(default_factory=dict)
    values: dict[Path, Range] = field(default_factory=dict)
    headers: list[tuple[Range, Path]] = field(default_factory=list)
    owned: dict[Path, list[Path]] = field(default_factory=dict)
    inherited: dict[Path, Path] = field(default_factory=dict)

    def key(self, path: Path) -> Range:
        """Return the range of a key, or of its closest parent in the text."""
        return self.keys.get(path) or self.value(path[:-1])

    def value(self, path: Path) -> Range:
        """Return the range of a value, or of its closest parent in the text."""
        return self.values.get(self._known(path), _START)

    def is_inherited(self, path: Path) -> bool:
        """Whether the range of :meth:`value` is in another entry, from which the value is inherited."""
        return self._known(path) in self.inherited

    def inherit(self, path: Path, written: Path) -> None:
        """Add the value at ``written`` at the path of an entry that inherits it."""
        self.inherited[path] = written
        self.values[path] = self.values[written]
        if written in self.keys:
            self.keys[path] = self.keys[written]
        self.owned.setdefault(path[:2], []).append(path)

    def _known(self, path: Path) -> Path:
        """Return the path itself, or its closest parent in the text."""
        while path and path not in self.values:
            path = path[:-1]
        return path

    def below(self, path: Path) -> list[Path]:
        """Return the paths of the values of one table of the file: ``("validation",)`` or ``("kernels", 3)``."""
        return self.owned.get(path, [])

    def inside(self, path: Path, value: str, column: int, length: int) -> Range:
        """Return the range of ``value[column:column + length]`` in a string, or of the string if it has escapes."""
        if path not in self.values and isinstance(path[-1], int):
            path = path[:-1]  # a bare value in place of a list with one item
        whole = self.values.get(path)
        if whole is None or whole.start.line != whole.end.line:
            return self.value(path)
        line = self.lines[whole.start.line]
        written = line[whole.start.column : whole.end.column]
        if written[1:-1] != value.encode():  # has escapes, or is triple-quoted
            return whole
        start = whole.start.column + 1 + len(value[:column].encode())
        size = max(len(value[column : column + length].encode()), 1)
        return Range.of(whole.start.line, start, whole.start.line, start + size)

    def at(self, position: Position) -> Spot | None:
        """Return the innermost key or value at a position, else the table that contains it."""
        best: Spot | None = None
        for part, ranges in (("key", self.keys), ("value", self.values)):
            for path, span in ranges.items():
                if span.start <= position <= span.end and (best is None or _tighter(path, span, best)):
                    best = Spot(path, part, span)
        for span, path in self.headers:
            if span.start <= position <= span.end:
                return Spot(path, "table", span)
        if best is not None:
            return best
        above = [(span, path) for span, path in self.headers if span.end <= position]
        return Spot(above[-1][1], "table", above[-1][0]) if above else None


def read_tree(text: str) -> TomlTree:
    """Parse a text; syntax errors are skipped."""
    source = text.encode()
    builder = _Builder(TomlTree(source.split(b"\n")))
    parser = tree_sitter.Parser(_LANGUAGE)
    builder.document(parser.parse(source).root_node)
    for path in builder.tree.values:
        table = path[: 2 if len(path) > 1 and isinstance(path[1], int) else 1]
        if path != table:
            builder.tree.owned.setdefault(table, []).append(path)
    return builder.tree


def _tighter(path: Path, span: Range, best: Spot) -> bool:
    inside = best.range.start <= span.start and span.end <= best.range.end
    return inside and (span != best.range or len(path) > len(best.path))


class _Builder:
    """One pass over the syntax tree. Error nodes are transparent, because tomli decides what is valid TOML."""

    def __init__(self, tree: TomlTree) -> None:
        self.tree = tree
        self._counts: dict[Path, int] = {}

    def document(self, root: tree_sitter.Node) -> None:
        table: Path = ()
        for node in _children(root, 0):
            if node.type in ("table", "table_array_element"):
                table = self._header(node)
                for child in _children(node, 0):
                    if child.type == "pair":
                        self._pair(child, table, 0)
            elif node.type == "pair":
                self._pair(node, table, 0)

    def _header(self, node: tree_sitter.Node) -> Path:
        parts = _key_parts(node.named_children[0]) if node.named_children else []
        path: Path = ()
        for index, (name, span) in enumerate(parts):
            path = (*path, name)
            if index == len(parts) - 1:
                self.tree.keys[path] = span
            else:
                self.tree.keys.setdefault(path, span)
                self.tree.values.setdefault(path, span)
            if index < len(parts) - 1 and path in self._counts:
                path = (*path, self._counts[path] - 1)
        if node.type == "table_array_element":
            count = self._counts.get(path, 0)
            self._counts[path] = count + 1
            span = _header_range(node)
            self.tree.values.setdefault(path, span)
            path = (*path, count)
        self.tree.values[path] = _header_range(node)
        self.tree.headers.append((_header_range(node), path))
        return path

    def _pair(self, node: tree_sitter.Node, table: Path, depth: int) -> None:
        named = list(_children(node, depth))
        if not named or depth > _MAX_DEPTH:
            return
        path = table
        parts = _key_parts(named[0])
        for index, (name, span) in enumerate(parts):
            path = (*path, name)
            self.tree.keys.setdefault(path, span)
            if index < len(parts) - 1:
                self.tree.values.setdefault(path, span)
        if len(named) > 1:
            self._value(named[1], path, depth + 1)

    def _value(self, node: tree_sitter.Node, path: Path, depth: int) -> None:
        self.tree.values[path] = _range(node)
        if depth > _MAX_DEPTH:
            return
        if node.type == "inline_table":
            for child in _children(node, depth):
                if child.type == "pair":
                    self._pair(child, path, depth + 1)
        elif node.type == "array":
            for index, child in enumerate(_children(node, depth)):
                self._value(child, (*path, index), depth + 1)


def _children(node: tree_sitter.Node, depth: int) -> Iterator[tree_sitter.Node]:
    for child in node.named_children:
        if child.type == "ERROR":
            if depth <= _MAX_DEPTH:
                yield from _children(child, depth + 1)
        elif child.type != "comment":
            yield child


def _key_parts(node: tree_sitter.Node) -> list[tuple[str, Range]]:
    # The grammar nests `a.b.c` to the left. A stack and not a recursion: a key may have thousands of parts.
    parts: list[tuple[str, Range]] = []
    pending = [node]
    while pending:
        item = pending.pop()
        if item.type == "dotted_key":
            pending.extend(reversed(item.named_children))
        elif item.type in ("bare_key", "quoted_key"):
            parts.append((_key_text(item), _range(item)))
    return parts


def _key_text(node: tree_sitter.Node) -> str:
    raw = (node.text or b"").decode(errors="replace")
    if node.type == "bare_key":
        return raw
    try:
        return next(iter(tomli.loads(f"{raw} = 0")), raw)
    except tomli.TOMLDecodeError:
        return raw


def _header_range(node: tree_sitter.Node) -> Range:
    brackets = [child for child in node.children if child.type in ("[", "]", "[[", "]]")]
    if not brackets:
        return _range(node)
    return Range(_range(brackets[0]).start, _range(brackets[-1]).end)


def _range(node: tree_sitter.Node) -> Range:
    (line, column), (end_line, end_column) = node.start_point, node.end_point
    return Range.of(line, column, end_line, end_column)
