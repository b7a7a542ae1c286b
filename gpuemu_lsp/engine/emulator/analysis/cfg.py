r"""Control-flow graph: basic blocks numbered so that divergent lanes reconverge at immediate post-dominators.

The reconvergence point of a branch is its immediate post-dominator: the first block that every path from the branch to
the exit passes through. GPUs before Volta kept these points on a reconvergence stack (Fung, Sham, Yuan and Aamodt,
"Dynamic warp formation and scheduling for efficient GPU control flow", MICRO 2007). Generated code has no stack. Each
lane has a program counter, and the dispatcher runs the lanes with the lowest block number until they reach a block
where others wait, as in Diamos et al., "SIMD re-convergence at thread frontiers", MICRO 2011. Reconvergence then
depends on the numbering alone, and :func:`build_cfg` chooses one in which

- every block on a path from a branch to its reconvergence point has a lower number than that point;
- the blocks of a loop are contiguous, so that lanes that have left it wait until the others have left it, too;
- a loop has one latch, so that lanes that reach its end on different paths reconverge before the next iteration.

::

    if (t < 8) a(); else b();                while (i < n[t]) { if (p) c(); i++; }
    d();                                     d();

        0  branch                                +--> 0  header     The lanes that leave the loop
       / \                                       |   / \            wait at 4, the reconvergence
      1   2    Block 1 runs while lanes wait     |  |   1  p?       point of 0, until the last lane
       \ /     at 2; then 2 runs while lanes     |  |  / \          has left: all blocks in which
        3      wait at 3, the reconvergence      |  | 2   |         the others still run have lower
               point of 0.                       |  |  \ /          numbers.
                                                 +--|-- 3  latch
                                                    4

Irreducible control flow (a loop with two entries) has no such numbering in general. ``reducible`` is then False, and
the kernel runs in its scalar-PC version only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.analysis.dominators import Edges, dominates, dominators, post_dominators, reversed_edges
from gpuemu_lsp.engine.emulator.ir.opcodes import is_collective
from gpuemu_lsp.engine.emulator.ir.program import (
    EXIT,
    BarrierSync,
    BasicBlock,
    Branch,
    Jump,
    Program,
    RecursiveCall,
    Switch,
    Terminator,
)


@dataclass(frozen=True, slots=True)
class ControlFlowGraph:
    """Control-flow graph of a program with ``n`` numbered blocks.

    ``successors`` and ``predecessors`` omit the exit. ``reconvergence_point[b]`` is the immediate post-dominator of
    block b, where lanes that diverge at its end reconverge; ``n`` if that is the exit. ``back_edges`` are the edges
    that do not lead to a higher number: (latch, header) of each natural loop, and in irreducible control flow at least
    one edge of every cycle. ``reducible`` is True if every back edge leads to a block that dominates its source.
    """

    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]
    reconvergence_point: tuple[int, ...]
    back_edges: frozenset[tuple[int, int]]
    reducible: bool


def build_cfg(program: Program) -> tuple[Program, ControlFlowGraph]:
    """Simplify the control flow of a program, give each loop one latch, and number blocks in execution order.

    Returns the program with its blocks in that order, and their graph. The entry stays block 0.
    """
    blocks = _thread_jumps(list(program.blocks))
    blocks = _remove_unreachable(_merge_chains(_remove_unreachable(blocks)))
    latched = _with_single_latches(blocks)
    order = _reconvergence_order(_edges(latched))
    blocks = _renumbered(latched, order)
    edges = _edges(blocks)
    dominator = dominators(edges)
    back = frozenset((u, v) for u, targets in enumerate(edges) for v in targets if v <= u)
    # Blocks without a successor (a trap, a return) lead to the exit like an explicit EXIT edge.
    exiting = [number for number, block in enumerate(blocks) if EXIT in block.targets or not block.targets]
    graph = ControlFlowGraph(
        successors=tuple(map(tuple, edges)),
        predecessors=tuple(map(tuple, reversed_edges(edges))),
        reconvergence_point=tuple(post_dominators(edges, exiting)),
        back_edges=back,
        reducible=all(dominates(dominator, header, latch) for latch, header in back),
    )
    return replace(program, blocks=tuple(blocks)), graph


# ---- simplification --------------------------------------------------------------------------------------------------


def _retarget(end: Terminator, to: Callable[[int], int]) -> Terminator:
    match end:
        case Jump(target):
            return Jump(to(target))
        case Branch(guard, taken, other):
            taken, other = to(taken), to(other)
            # A branch to one target cannot diverge.
            return Jump(taken) if taken == other else Branch(guard, taken, other)
        case Switch(index, targets):
            return Switch(index, tuple(map(to, targets)))
        case BarrierSync(instruction, target):
            return BarrierSync(instruction, to(target))
        case RecursiveCall():
            return replace(end, callee=to(end.callee), target=to(end.target))
        case _:
            return end


def _thread_jumps(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """Redirect edges past empty blocks (jump threading); an edge to an empty block that exits becomes an exit."""

    def final(number: int) -> int:
        seen: set[int] = set()
        # An empty endless loop leads back to itself.
        while number != EXIT and number not in seen:
            seen.add(number)
            block = blocks[number]
            if block.code or not isinstance(block.terminator, Jump):
                break
            number = block.terminator.target
        return number

    def shortened(end: Terminator) -> Terminator:
        # A suspended warp is resumed at a block number, so the successor of a barrier or a call must stay a block.
        return end if isinstance(end, BarrierSync | RecursiveCall) else _retarget(end, final)

    return [BasicBlock(block.code, shortened(block.terminator)) for block in blocks]


def _remove_unreachable(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """Return the blocks that are reachable from block 0."""
    seen = reachable([0], lambda number: (target for target in blocks[number].targets if target != EXIT))
    return _renumbered(blocks, sorted(seen))


def _merge_chains(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """Append blocks to their only predecessor where it ends in a jump."""
    entries = [0] * len(blocks)
    # The launch is a way into the entry.
    entries[0] = 1
    for block in blocks:
        for target in block.targets:
            if target != EXIT:
                entries[target] += 1
    blocks = list(blocks)
    merged: set[int] = set()
    for number in range(len(blocks)):
        if number in merged:
            continue
        while True:
            block = blocks[number]
            end = block.terminator
            # The entry stays block 0; a loop to itself is not a chain.
            if not isinstance(end, Jump) or end.target in (EXIT, number, 0) or entries[end.target] != 1:
                break
            following = blocks[end.target]
            # Barriers keep a block of their own and collectives stay first in theirs: lanes wait at block entry.
            if isinstance(following.terminator, BarrierSync) or (following.code and is_collective(following.code[0])):
                break
            merged.add(end.target)
            blocks[number] = BasicBlock(block.code + following.code, following.terminator)
            blocks[end.target] = BasicBlock((), Jump(EXIT))
    return blocks


def _with_single_latches(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """Add a latch to each natural loop with several back edges, or with a back edge that is not a plain branch."""
    edges = _edges(blocks)
    dominator = dominators(edges)
    latches: dict[int, list[int]] = {}
    for u, targets in enumerate(edges):
        for v in set(targets):
            if dominates(dominator, v, u):
                latches.setdefault(v, []).append(u)
    blocks = list(blocks)
    # Only natural loops have a header that dominates the source: other cycles make the graph irreducible anyway.
    for header, sources in latches.items():
        if len(sources) == 1 and isinstance(blocks[sources[0]].terminator, Jump | Branch):
            continue
        latch = len(blocks)
        blocks.append(BasicBlock((), Jump(header)))
        for source in sources:
            end = _retarget(blocks[source].terminator, lambda t, h=header, new=latch: new if t == h else t)  # type: ignore[misc]
            blocks[source] = BasicBlock(blocks[source].code, end)
    return blocks


def _edges(blocks: Sequence[BasicBlock]) -> Edges:
    return [[t for t in dict.fromkeys(block.targets) if t != EXIT] for block in blocks]


def _renumbered(blocks: Sequence[BasicBlock], order: Sequence[int]) -> list[BasicBlock]:
    number: Mapping[int, int] = {old: new for new, old in enumerate(order)} | {EXIT: EXIT}
    return [BasicBlock(blocks[old].code, _retarget(blocks[old].terminator, number.__getitem__)) for old in order]


# ---- numbering -------------------------------------------------------------------------------------------------------


def _reconvergence_order(edges: Edges) -> list[int]:
    """Return the blocks in topological order with every natural loop contiguous.

    Each loop level is sorted on its own, with the loops inside it collapsed into single nodes; a collapsed loop is then
    replaced by the order of its own blocks.
    """
    dominator = dominators(edges)
    members: dict[int, set[int]] = {}
    predecessors = reversed_edges(edges)
    for u, targets in enumerate(edges):
        for v in targets:
            if dominates(dominator, v, u):
                members.setdefault(v, {v}).update(natural_loop(predecessors, u, v))
    # Natural loops with different headers are nested or disjoint, so the smallest enclosing one is the parent.
    parent: dict[int, int | None] = {}
    for header, body in members.items():
        enclosing = [h for h, other in members.items() if h != header and header in other and body <= other]
        parent[header] = min(enclosing, key=lambda h: len(members[h]), default=None)
    innermost: list[int | None] = [None] * len(edges)
    # Larger loops first, so that the innermost loop is written last.
    for header in sorted(members, key=lambda h: -len(members[h])):
        for block in members[header]:
            innermost[block] = header

    def node_of(block: int, loop: int | None) -> int | None:
        """Return the node of ``block`` in the graph of ``loop``: itself, or the header of its collapsed loop."""
        inner = innermost[block]
        if inner == loop:
            return block
        while inner is not None and parent[inner] != loop:
            inner = parent[inner]
        return inner

    result: list[int] = []
    # Entries: a node, the loop it belongs to, and whether it is a collapsed loop that is still to be expanded.
    work: list[tuple[int, int | None, bool]] = [(0, None, True)]
    while work:
        node, loop, collapsed = work.pop()
        if not collapsed:
            result.append(node)
            continue
        inside = members[loop] if loop is not None else None
        for child in reversed(_topological(edges, node, loop, inside, node_of)):
            is_loop = child in members and child != loop
            work.append((child, child if is_loop else loop, is_loop))
    return result


def natural_loop(predecessors: Edges, latch: int, header: int) -> set[int]:
    """Return the blocks of a natural loop: those that reach the latch without passing through the header."""
    return {header} | reachable([latch], lambda block: predecessors[block] if block != header else ())


def _topological(
    edges: Edges,
    start: int,
    loop: int | None,
    inside: set[int] | None,
    node_of: Callable[[int, int | None], int | None],
) -> list[int]:
    """Return one loop level in reverse postorder; of the sides of a branch the one with the shorter way comes first.

    The side with lower numbers runs while the lanes of the other side wait. A register that it defines becomes varying
    if the waiting lanes still need it, and a short side defines few.
    """
    nodes: dict[int, list[int]] = {}
    for block in range(len(edges)) if inside is None else sorted(inside):
        node = node_of(block, loop)
        if node is None:
            continue
        targets = nodes.setdefault(node, [])
        for target in edges[block]:
            if inside is not None and target not in inside:
                continue
            other = node_of(target, loop)
            # Edges to the header of this loop are its back edges.
            if other is not None and other not in (node, loop) and other not in targets:
                targets.append(other)
    first = node_of(start, loop)
    assert first is not None
    weight = _longest_paths(nodes, first)
    # The longest way is visited first and so finished first: reverse postorder puts it last.
    # Depth-first; finishing order reversed is a topological order, as the level has no cycle but irreducible ones.
    seen = {first}
    postorder: list[int] = []
    stack = [(first, iter(sorted(nodes[first], key=lambda n: -weight[n])))]
    while stack:
        node, targets_left = stack[-1]
        for target in targets_left:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(sorted(nodes[target], key=lambda n: -weight[n]))))
                break
        else:
            postorder.append(node)
            stack.pop()
    return postorder[::-1]


def _longest_paths(nodes: Mapping[int, list[int]], first: int) -> dict[int, int]:
    """Return for each node the length of the longest path from it, in nodes; an estimate in irreducible graphs."""
    weight: dict[int, int] = {}
    stack: list[tuple[int, bool]] = [(first, False)]
    while stack:
        node, done = stack.pop()
        if done:
            weight[node] = 1 + max((weight.get(t, 0) for t in nodes[node]), default=0)
        elif node not in weight:
            weight[node] = 0
            stack.append((node, True))
            stack.extend((t, False) for t in nodes[node] if t not in weight)
    return weight
