"""Lengths that the code of a file has as numbers, which its buffers may have too."""

from __future__ import annotations

from gpuemu_lsp.engine.hostcode.cpp.translation_units import read_unit
from gpuemu_lsp.engine.hostcode.ir import Constant, Declare
from gpuemu_lsp.engine.hostcode.walk import walk
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
        numbers |= _shared_lengths(source.views)
    return tuple(sorted(number for number in numbers if number <= _LARGEST))


def _shared_lengths(views: DeviceViews) -> set[int]:
    code = read_unit(views).device_code()
    declared = (node for each in code for node in walk(each) if isinstance(node, Declare) and node.shared)
    lengths = (each.lengths[0] for each in declared if len(each.lengths) == 1)
    return {each.value for each in lengths if isinstance(each, Constant) and isinstance(each.value, int)}
