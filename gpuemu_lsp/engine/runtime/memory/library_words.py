"""The words at the beginning of device memory, where nothing is allocated, that the program's library sees too."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuemu_lsp.engine.execution import Bytes
from gpuemu_lsp.engine.runtime.protocol.messages import SharedWords
from gpuemu_lsp.engine.runtime.protocol.records import field_types

_PLACES = {name: place for place, name in enumerate(field_types(SharedWords))}


class LibraryWords:
    """:class:`SharedWords` at the beginning of ``memory``."""

    def __init__(self, memory: Bytes) -> None:
        self._words = memory[: 8 * len(_PLACES)].view(np.uint64)

    def _word(self, name: str) -> int:
        return int(self._words[_PLACES[name]])

    @property
    def refused_process(self) -> bool:
        """Whether a process other than the one that has the connection made a CUDA call."""
        return bool(self._word("refused"))

    @property
    def repeats(self) -> int:
        """The launches that the library has not made, because they are proved to do nothing."""
        return self._word("repeats")

    @property
    def library_calls(self) -> int:
        """The calls of libraries' functions that make no launch, but products of matrices."""
        return self._word("library_calls")

    def program_has(self, address: int) -> bool:
        """Return whether the program has mapped a page at an address."""
        try:
            lines = Path(f"/proc/{self._word('owner')}/maps").read_text(errors="replace").splitlines()
        except OSError:
            return False
        ranges = (line.partition(" ")[0].partition("-") for line in lines)
        return any(int(low, 16) <= address < int(high, 16) for low, _, high in ranges)

    def set_total(self, size: int) -> None:
        """Write the size of device memory in bytes."""
        self._words[_PLACES["total"]] = size

    def set_contents(self, generation: int | None) -> None:
        """Write for which contents of memory a launch is proved to do nothing; None if none is."""
        self._words[_PLACES["contents"]] = 0 if generation is None else contents_number(generation)


def contents_number(generation: int) -> int:
    """Return the number by which the library knows the contents of memory; 0 is that of none."""
    return generation + 1
