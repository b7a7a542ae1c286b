"""Parameters of which other integers in memory choose the elements that are accessed.

``table[index[i]]``, ``values[j]`` for the ``j`` of a row of a sparse matrix, ``out[atomicAdd(count, 1)]``: how many
elements such a parameter has follows from numbers that the kernel reads, and from no size that it is passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from gpuemu_lsp.engine.emulator.analysis.dependence.kernel import dependences
from gpuemu_lsp.engine.emulator.analysis.dependence.sources import MemoryContents


def chosen_elements(ptx: str, entry: str, integers: Collection[int]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the parameters, by number, with an access that depends on what the memory of ``integers`` holds.

    The second are those of ``integers`` that choose and that an atomic operation reads: counters and queues.
    """
    chosen: dict[int, set[int]] = defaultdict(set)
    atomic = set[int]()
    for (_, number), by_opcode in dependences(ptx, entry).accesses.items():
        if "atom" in by_opcode:
            atomic.add(number)
        for dependence in by_opcode.values():
            for source in dependence.address | dependence.control:
                if isinstance(source, MemoryContents) and source.parameter in integers and source.parameter != number:
                    chosen[number].add(source.parameter)
    return frozenset(chosen), frozenset(atomic & set[int]().union(*chosen.values()))
