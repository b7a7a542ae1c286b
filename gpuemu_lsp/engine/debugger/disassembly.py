"""The PTX of a recorded block as a disassembly: its instructions with their places in the source."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from gpuemu_lsp.engine.debug.explain import RecordedBlock
from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.ptx.model import Location

_CODE: Final = re.compile(r"\s*(?:@!?%\w+\s+)?[a-z][\w.:]*(?:\s|;)|\s*\$\w+:")


class Disassembly:
    """The instructions of a module; the address of one is its 0-based line."""

    def __init__(self, block: RecordedBlock) -> None:
        self._place_of = block.source.place_of
        self._text = block.code.split("\n")
        self._lines = [number for number, text in enumerate(self._text) if _CODE.match(text)]
        self._locations: dict[int, Location | None] = {
            one.text_line: one.location for basic in block.history.program.blocks for one in basic.code
        }

    @staticmethod
    @lru_cache(maxsize=1)
    def of(block: RecordedBlock) -> Disassembly:
        """Return the disassembly of a block."""
        return Disassembly(block)

    def rows(self, line: int, first: int, count: int) -> Iterator[tuple[int, str, Place | None]]:
        """Yield ``count`` instructions, from the number ``first`` after that of a line on.

        Each with its line, which is -1 outside of the text, and its place.
        """
        start = bisect_left(self._lines, line) + first
        for index in range(start, start + count):
            if 0 <= index < len(self._lines):
                number = self._lines[index]
                yield number, self._text[number].strip(), self._place_of(self._locations.get(number))
            else:
                yield -1, "", None
