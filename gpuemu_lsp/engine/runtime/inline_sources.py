"""Lines of the Python file whose string became a source that PyTorch's ``load_inline`` has written.

The string may have been formatted or joined before, so that its lines are those of the file but for some. They are
compared as those of two versions of a file are.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.regular_file import readable_text

_WRITTEN = ("cuda.cu", "main.cpp")
"""Names of the sources that ``load_inline`` writes."""

_BUILD_FILE = "build.ninja"
_CALL = "load_inline"
_MOST_FILES = 200
_TELLING = 8
"""Characters of a line that is hardly in two files by chance."""


def inline_origin(path: str, line: int, script: str) -> tuple[str, int] | None:
    """Return the Python file and the line, 1-based, whose string is a line of a written source.

    ``script`` is the file that has called the extension: the string is there, or in a file of the same folder. None is
    returned where the source is another one, or the line was made when the program ran.
    """
    if Path(path).name not in _WRITTEN or not (Path(path).parent / _BUILD_FILE).is_file():
        return None
    for candidate in _candidates(script):
        found = _lines(path, candidate).get(line)
        if found is not None:
            return candidate, found
    return None


@lru_cache(maxsize=64)
def _candidates(script: str) -> tuple[str, ...]:
    others = sorted(Path(script).parent.glob("*.py"))[:_MOST_FILES]
    return (script, *(str(path) for path in others if str(path) != script and _CALL in (readable_text(path) or "")))


@lru_cache(maxsize=64)
def _lines(written: str, script: str) -> dict[int, int]:
    """Return the lines of a script by the lines of a source that was written for it, both 1-based."""
    return dict(_pairs(*((readable_text(path) or "").splitlines() for path in (written, script))))


def _pairs(written: list[str], script: list[str]) -> Iterator[tuple[int, int]]:
    matcher = SequenceMatcher(None, written, script, autojunk=False)
    joined = False
    for kind, low, high, at, end in matcher.get_opcodes():
        same = kind == "equal" and any(len(text.strip()) >= _TELLING for text in written[low:high])
        # Lines between equal ones, of which a part was replaced.
        if same or (kind == "replace" and joined and high - low == end - at):
            yield from ((low + i + 1, at + i + 1) for i in range(high - low))
        joined = same
