"""Control dependence: the branches that decide whether a block is executed.

In the sense of Ferrante, Ottenstein and Warren, "The program dependence graph and its use in optimization" (1987): from
one side of the branch every path leads through the block, and from another one not every path does. A block behind a
loop is therefore independent of the number of iterations.
"""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph


def control_dependences(graph: ControlFlowGraph) -> list[set[int]]:
    """Return, for each block, the blocks that are control-dependent on its terminator."""
    above = graph.reconvergence_point
    found: list[set[int]] = [set() for _ in graph.successors]
    for number, targets in enumerate(graph.successors):
        for target in targets if len(targets) > 1 or above[number] not in targets else ():
            # The path in the tree of post-dominators from the target up to that of the branch.
            block = target
            while 0 <= block < len(above) and block != above[number]:
                found[number].add(block)
                block = above[block]
    return found
