"""Edits of gpuemu.toml: replace a value, add a key to a kernel's table, append an entry. Columns are bytes."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.project.tree import TomlTree, read_tree


@dataclass(frozen=True, slots=True)
class TextChange:
    """The replacement of a range."""

    range: Range
    text: str


def set_in_kernel(text: str, index: int, table: str, key: str, value: str) -> TextChange | None:
    """Return the change that sets ``[kernels.TABLE] KEY = VALUE`` of the kernel number ``index``.

    The rest of the file keeps its formatting. None if the file has no such kernel.
    """
    tree = read_tree(text)
    path = ("kernels", index, table)
    if ("kernels", index) not in tree.values:
        return None
    known = tree.values.get((*path, key))
    if known is not None:
        return TextChange(known, value)
    whole = tree.values.get(path)
    line = f"{key} = {value}"
    if whole is None:
        return _new_table(text, tree, index, f"[kernels.{table}]\n{line}\n")
    opening = tree.lines[whole.start.line][whole.start.column : whole.start.column + 1]
    if opening == b"{":
        return _in_line(tree, whole, line)
    if opening == b"[":
        return TextChange(_after(tree, whole.end.line), f"{line}\n")
    return None  # dotted keys have no single place for another one


def remark(text: str, index: int, table: str, key: str, mark: str, comment: str) -> TextChange | None:
    """Return the change that puts a comment line above a key of a kernel's table.

    It replaces an existing comment that begins with ``mark``, as ``comment`` does. None if the file has no such key.
    """
    tree = read_tree(text)
    path = ("kernels", index, table, key)
    span = tree.keys.get(path)
    if span is None:
        return None
    line = span.start.line
    written = tree.lines[line].decode(errors="replace")
    new = written[: len(written) - len(written.lstrip())] + comment + "\n"
    if line and tree.lines[line - 1].strip().startswith(mark.encode()):
        return TextChange(Range.of(line - 1, 0, line, 0), new)
    return TextChange(Range.of(line, 0, line, 0), new)


def applied(text: str, change: TextChange) -> str:
    """Return the text after a change."""
    lines = text.encode().split(b"\n")
    start, end = change.range.start, change.range.end
    before = b"\n".join([*lines[: start.line], lines[start.line][: start.column]])
    after = b"\n".join([lines[end.line][end.column :], *lines[end.line + 1 :]])
    return (before + change.text.encode() + after).decode()


def append(text: str, block: str) -> TextChange:
    """Return the change that adds a block at the end of a file, with an empty line before it."""
    lines = text.encode().split(b"\n")
    end = Position(len(lines) - 1, len(lines[-1]))
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return TextChange(Range(end, end), gap + block)


def kernel_index(text: str, name: str) -> int | None:
    """Return the index of the ``[[kernels]]`` entry of a name."""
    tree = read_tree(text)
    index = 0
    while ("kernels", index) in tree.values:
        span = tree.values.get(("kernels", index, "name"))
        if span is not None and span.start.line == span.end.line:
            written = tree.lines[span.start.line][span.start.column : span.end.column].decode(errors="replace")
            if written in (toml(name), f"'{name}'"):
                return index
        index += 1
    return None


def _new_table(text: str, tree: TomlTree, index: int, block: str) -> TextChange:
    """Add a table after the last one of its kernel."""
    inside = [span for span, path in tree.headers if path[:2] == ("kernels", index)]
    if not inside:
        return append(text, block)
    last = max(inside)
    below = [span.start.line for span, path in tree.headers if span.start > last.end and path[:2] != ("kernels", index)]
    end = min(below, default=len(tree.lines))
    while end > last.end.line + 1 and _is_gap(tree.lines[end - 1]):
        end -= 1
    if end >= len(tree.lines):
        return append(text, block)
    return TextChange(Range.of(end, 0, end, 0), f"\n{block}")


def _is_gap(line: bytes) -> bool:
    stripped = line.strip()
    return not stripped or stripped.startswith(b"#")


def _in_line(tree: TomlTree, whole: Range, line: str) -> TextChange:
    inner = tree.lines[whole.end.line][: whole.end.column - 1].rstrip()
    at = Position(whole.end.line, len(inner))
    empty = inner.endswith(b"{")
    return TextChange(Range(at, at), f" {line}" if empty else f", {line}")


def _after(tree: TomlTree, line: int) -> Range:
    if line + 1 < len(tree.lines):
        return Range.of(line + 1, 0, line + 1, 0)
    return Range.of(line, len(tree.lines[line]), line, len(tree.lines[line]))
