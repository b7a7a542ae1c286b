"""Lines of the source: their text, and the declarations of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.ptx.model import Location


@dataclass(frozen=True, slots=True)
class SourceLines:
    """The user's places of locations, and the text of their lines."""

    place_of: Callable[[Location | None], Place | None]
    text_of: Callable[[str], str | None]

    def line(self, place: Place) -> str:
        """Return the line of a place without its indentation."""
        lines = (self.text_of(place.path) or "").split("\n")
        number = place.range.start.line
        return lines[number].strip() if number < len(lines) else ""

    def declaration(self, array: str, use: Place) -> Place | None:
        """Return the line that declares an array, the closest above a use of it; None if there is none."""
        lines = (self.text_of(use.path) or "").split("\n")
        declared = re.compile(rf"^\s*(?:[\w:<>]+\s+)+\*?{re.escape(array)}\s*\[[^\]]*\][^()]*;")
        for number in range(min(use.range.start.line, len(lines)) - 1, -1, -1):
            if declared.match(lines[number].partition("//")[0]):
                return Place(use.path, Range.of(number, 0, number, len(lines[number])))
        return None
