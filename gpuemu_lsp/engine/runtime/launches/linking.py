"""One PTX text of the texts of separately compiled objects."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FILES = re.compile(r"^(\s*\.(?:file|loc)\s+)(\d+)|(\binlined_at\s+)(\d+)", re.MULTILINE)
_LABELS = re.compile(r"(\$L__info_string)(\d+)")
_VARIABLE = re.compile(
    r"^(?P<linkage>\.extern |\.visible |\.weak |\.common )?\.(?:global|const|shared)\b[^;={]*?"
    r"(?P<name>[\w$]+)(?:\[\d*\])*\s*(?:=[^;]*)?;[ \t]*$",
    re.MULTILINE,
)
_STEP = 100_000
"""More than the files or labels of one text."""


def linked_text(texts: Sequence[str]) -> str:
    """Return one text with the functions and variables of all.

    Numbers of files and labels are made different. Of a variable that several texts have, one definition is kept, or
    one declaration if none defines it; functions need no such choice (a declaration yields to a definition).
    """
    if len(texts) == 1:
        return texts[0]
    defined = {match["name"] for text in texts for match in _VARIABLE.finditer(text) if match["linkage"] != ".extern "}
    seen: set[str] = set()

    def once(match: re.Match[str]) -> str:
        name = match["name"]
        if name in seen or (match["linkage"] == ".extern " and name in defined):
            return ""
        seen.add(name)
        return match[0]

    return "\n".join(_VARIABLE.sub(once, _renumbered(text, index * _STEP)) for index, text in enumerate(texts))


def _renumbered(text: str, added: int) -> str:
    def file(match: re.Match[str]) -> str:
        return f"{match[1] or match[3]}{int(match[2] or match[4]) + added}"

    return _LABELS.sub(lambda match: f"{match[1]}{int(match[2]) + added}", _FILES.sub(file, text))
