"""Rows of an earlier run in a file of JSON lines, by the content of answers: what was judged is not judged again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.judge.model import Answer, Verdict
from gpuemu_lsp import __version__

_BEGIN = '{"key": "'


class EarlierRowsError(Exception):
    """A file that is not one of earlier rows, or cannot be written."""


class EarlierRows:
    """The rows of a file, and those that are added to it; a context manager.

    Raises
    ------
    EarlierRowsError
        If the file has something else, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._rows: dict[str, Mapping[str, Any]] = {}
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            *lines, last = text.split("\n")
            # What a run that was killed while it wrote has left is a part of a row.
            self._read(path, lines if last.startswith(_BEGIN) or _BEGIN.startswith(last) else [*lines, last])
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            self._file = path.open("a", encoding="utf-8", buffering=1)
        except (OSError, UnicodeDecodeError) as error:
            raise EarlierRowsError(f"{path}: {error}") from error

    def _read(self, path: Path, lines: Sequence[str]) -> None:
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                self._rows[entry["key"]] = entry["row"]
            except (ValueError, KeyError, TypeError) as error:
                raise EarlierRowsError(f"{path}:{number}: not a row of an earlier run: name another file") from error

    def __enter__(self) -> EarlierRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def row(self, answer: Answer) -> Mapping[str, Any] | None:
        """Return the row of an answer, None if it was not judged, or is another now."""
        row = self._rows.get(_key(answer))
        return row if row is not None and row["verdict"] != Verdict.NOT_JUDGED else None

    def add(self, answer: Answer, row: Mapping[str, Any]) -> None:
        """Add the row of an answer."""
        self._file.write(json.dumps({"key": _key(answer), "row": row}) + "\n")


def _key(answer: Answer) -> str:
    """Return what changes with the path and the texts of an answer and of its task, and this version."""
    texts = answer.texts
    # The name depends on the other answers; in a file of lines the texts are those of one.
    parts = [str(answer.path), answer.model, answer.task_model, __version__]
    parts += [_text(answer.path), _text(answer.task), *map(_text, answer.sources)]
    if texts is not None:
        parts += [texts.answer or "", *texts.tasks, *(text for item in sorted(texts.files.items()) for text in item)]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _text(path: Path) -> str:
    """Return the text of a file; a task that is a folder has its texts in those of the answer."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
