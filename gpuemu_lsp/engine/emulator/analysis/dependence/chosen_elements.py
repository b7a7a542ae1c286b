"""Parameters of which other integers in memory choose the elements that are accessed.

``table[index[i]]``, ``values[j]`` for the ``j`` of a row of a sparse matrix, ``out[atomicAdd(count, 1)]``: how many
elements such a parameter has follows from numbers that the kernel reads, and from no size that it is passed.
"""

from __future__ import annotations

from collections.abc import Collection

from gpuemu_lsp.engine.emulator.analysis.dependence.kernel import dependences
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import MemoryContents


def chosen_elements(ptx: str, entry: str, integers: Collection[int]) -> frozenset[int]:
    """Return the parameters, by number, with an access that depends on what the memory of ``integers`` holds."""
    return frozenset(
        number
        for (_, number), by_opcode in dependences(ptx, entry).accesses.items()
        for dependence in by_opcode.values()
        if any(
            isinstance(source, MemoryContents) and source.parameter in integers and source.parameter != number
            for source in dependence.address | dependence.control
        )
    )
