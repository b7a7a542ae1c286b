"""Lengths that the code of a file has as numbers, which its buffers may have too."""

from __future__ import annotations

from gpuemu_lsp.engine.hostcode.cpp.translation_units import read_unit
from gpuemu_lsp.engine.source import DeviceViews
from gpuemu_lsp.engine.source.model import SourceFile

_LARGEST = 999_999
"""Larger integer constants are not lengths of arrays."""


def array_lengths(source: SourceFile | None) -> tuple[int, ...]:
    """Return the file's plain integer constants, and the lengths of its shared arrays: those of a histogram's bins."""
    if source is None:
        return ()
    numbers = {int(text) for each in source.constants.values() if (text := each.strip(" ()")).isdecimal()}
    if isinstance(source.views, DeviceViews):
        functions = read_unit(source.views).on_device()
        numbers |= frozenset[int]().union(*(each.body.shared_lengths for each in functions))
    return tuple(sorted(number for number in numbers if number <= _LARGEST))
