"""Addresses of host memory in a launch's buffers, such as those of a tensor of ``data_ptr()`` values.

A buffer is copied into the arena, so that its address on the host leads nowhere in the kernel. Where a buffer holds
addresses of others, each eight aligned bytes with an address inside a buffer, or just past its end, are replaced by
the same place in the arena: accesses through them then have the bounds of that buffer. What a kernel leaves in memory
is replaced back, as the next launch has another layout.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.execution import Request

_Words = npt.NDArray[np.uint64]


def translate_to_arena(request: Request, arena: Arena, regions: dict[str, Region]) -> None:
    """Replace addresses of the host in the buffers that hold such by addresses in the arena."""
    tables = [buffer for buffer in request.buffers if buffer.holds_addresses]
    if tables:
        host, own, sizes = _places(request, regions)
        for buffer in tables:
            _translate(_words(arena, regions[buffer.name]), host, own, sizes)


def translate_to_host(request: Request, arena: Arena, regions: dict[str, Region]) -> None:
    """Replace addresses in the arena, in buffers whose elements have the size of one, by those of the host."""
    # A kernel may also store the addresses of its arguments, for a later launch.
    tables = [buffer for buffer in request.buffers if buffer.element_size == 8 or buffer.holds_addresses]
    if tables and any(buffer.host_address for buffer in request.buffers):
        host, own, sizes = _places(request, regions)
        for buffer in tables:
            _translate(_words(arena, regions[buffer.name]), own, host, sizes)


def _places(request: Request, regions: dict[str, Region]) -> tuple[_Words, _Words, _Words]:
    """Return the addresses on the host and in the arena and the sizes of the buffers that have both."""
    placed = {buffer.host_address: regions[buffer.name] for buffer in request.buffers if buffer.host_address}
    own = np.array([region.address for region in placed.values()], np.uint64)
    sizes = np.array([region.size for region in placed.values()], np.uint64)
    return np.array([*placed], np.uint64), own, sizes


def _words(arena: Arena, region: Region) -> _Words:
    return arena.data(region.address, region.size // 8 * 8).view(np.uint64)


def _translate(words: _Words, source: _Words, target: _Words, sizes: _Words) -> None:
    """Replace words in the ranges ``source`` by the same places in the ranges ``target``."""
    order = np.argsort(source)
    source, target, sizes = source[order], target[order], sizes[order]
    low, high = source[0], (source + sizes).max()
    places = np.flatnonzero((words >= low) & (words <= high))
    found = words[places]
    index = np.searchsorted(source, found, side="right") - 1
    offset = found - source[index]
    inside = offset <= sizes[index]
    words[places[inside]] = target[index[inside]] + offset[inside]
