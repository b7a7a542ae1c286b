"""Lines of Python that are named on the lines of a source that a compiler in Python has written, as TileLang's does."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuemu_lsp.engine.regular_file import readable_text

_MARK = re.compile(r"  // from (?P<path>/.+\.py):(?P<line>\d+)$")


def marked_origin(path: str, line: int) -> tuple[str, int] | None:
    """Return the Python file and the line, 1-based, that a line of a source is from; None if it does not say so."""
    rows = _rows(path) if path.endswith(".cu") else ()
    mark = _MARK.search(rows[line - 1]) if 0 < line <= len(rows) else None
    return None if mark is None else (mark["path"], int(mark["line"]))


def is_marked(path: str) -> bool:
    """Return whether lines of a source say which lines of Python they are from."""
    return path.endswith(".cu") and bool(_rows(path))


@lru_cache(maxsize=64)
def _rows(path: str) -> tuple[str, ...]:
    text = readable_text(path) or ""
    return tuple(text.split("\n")) if "  // from /" in text else ()
