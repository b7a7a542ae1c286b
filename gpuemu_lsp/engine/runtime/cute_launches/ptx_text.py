"""PTX of CuTe DSL, as the emulator takes it."""

from __future__ import annotations

import re

_LOCATION = re.compile(r"^(\s*\.loc\s+\d+\s+\d+\s+)(\d+)(.*inlined_at\s+\d+\s+\d+\s+)?(\d+)?", re.MULTILINE)


def with_columns_from_one(ptx: str) -> str:
    """Count columns of source lines from 1, as all compilers do but CuTe DSL: its are those of Python's ``ast``."""

    def moved(match: re.Match[str]) -> str:
        first, column, inlined, outer = match.groups()
        text = f"{first}{int(column) + 1}{inlined or ''}"
        return f"{text}{int(outer) + 1}" if outer else text

    return _LOCATION.sub(moved, ptx)
