"""The text of the documents that the cells of a notebook are. Line numbers within a cell stay as they are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

_CUDA_MAGICS = frozenset({"cuda", "cu", "nvcc", "cuda_group_run", "cuda_group_save"})
"""Magics of nvcc4jupyter and of its forks, whose cells are whole files of CUDA code."""
_WRITING_MAGICS = frozenset({"writefile", "file"})
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "python", "python3"})
"""Cell magics whose cells are Python."""
_CUDA_FILE = re.compile(r"\S+\.cuh?\b")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)(.*)")
_LINE_MAGIC = re.compile(r"(\s*)(?:[%!?]|[\w.]+\?{1,2}\s*$)")
_ASSIGNED_MAGIC = re.compile(r"(\s*[\w, ]+=\s*)[!%].*")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: the URI of its text document with the client, its version, and its text.

    Without a version it has that of the document.
    """

    uri: str
    version: int | None
    text: str


@dataclass(frozen=True, slots=True)
class CellDocument:
    """A document of which cells are the parts, one after the other. ``path`` is absolute; no file has that name.

    ``starts`` are the 0-based lines at which the cells begin.
    """

    path: str
    cells: tuple[Cell, ...]
    starts: tuple[int, ...]
    text: str

    def cell_at(self, line: int) -> int | None:
        """Return the number of the cell that has a 0-based line."""
        before = [number for number, start in enumerate(self.starts) if start <= line]
        return before[-1] if before else None


def untitled(uri: str, path: str) -> CellDocument:
    """Return the document of a text that was never saved: one part, whose lines are those of the text."""
    return CellDocument(path, (Cell(uri, None, ""),), (0,), "")


def documents_of(path: str, cells: Sequence[Cell]) -> tuple[CellDocument, ...]:
    """Return the documents of the cells of the notebook at ``path``: its module first, then each cell of CUDA code."""
    parts = [(cell, *_part(cell.text)) for cell in cells]
    python = [(cell, text) for cell, text, is_cuda in parts if not is_cuda]
    documents = [_document(f"{path}.py", python)]
    for cell, text, is_cuda in parts:
        if is_cuda:
            # The number of a cell changes with the cells before it.
            digest = hashlib.blake2b(cell.uri.encode(), digest_size=4).hexdigest()
            documents.append(_document(f"{path}.{digest}.cu", [(cell, text)]))
    return tuple(documents)


def _document(path: str, parts: Sequence[tuple[Cell, str]]) -> CellDocument:
    starts, line = list[int](), 0
    for _, text in parts:
        starts.append(line)
        line += text.count("\n") + 1
    cells = tuple(cell for cell, _ in parts)
    return CellDocument(path, cells, tuple(starts), "\n".join(text for _, text in parts))


def _part(text: str) -> tuple[str, bool]:
    """Return the text of a cell as its language has it, and whether that is CUDA. Other languages leave empty lines."""
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    magic = _CELL_MAGIC.match(lines[first])
    if magic is None:
        return "\n".join(map(_python_line, lines)), False
    name, arguments = magic.groups()
    lines[first] = ""
    if name in _CUDA_MAGICS or (name in _WRITING_MAGICS and _CUDA_FILE.search(arguments)):
        return "\n".join(lines), True
    if name in _PYTHON_MAGICS:
        return "\n".join(map(_python_line, lines)), False
    return "\n" * (len(lines) - 1), False


def _python_line(line: str) -> str:
    """Return a line of IPython as one of Python: a command has no effect on kernels, a result of one is not known."""
    command = _LINE_MAGIC.match(line)
    if command is not None:
        return f"{command[1]}pass"
    assigned = _ASSIGNED_MAGIC.fullmatch(line)
    return f"{assigned[1]}None" if assigned is not None else line
