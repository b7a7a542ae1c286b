"""Control flow: blocks in an order that lets diverged lanes meet again, and the loops among them.

The order is what divergence handling rests on: of several groups of lanes the one in the lowest block runs first. Where
every loop is contiguous, has one latch, and everything between a branch and its immediate post-dominator is
numbered below the latter, that rule alone makes lanes meet at post-dominators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
    """The control flow of an arranged program with ``n`` blocks.

    ``successors`` and ``predecessors`` leave out the exit. ``reconvergence_point[b]`` is the immediate post-dominator,
    ``n`` for the exit. ``back_edges`` are those that do not lead to a higher number: (latch, header) of every loop; of
    a loop with two entries, at least one edge of each way around it. ``reducible`` is False for such.
    """

    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]
    reconvergence_point: tuple[int, ...]
    back_edges: frozenset[tuple[int, int]]
    reducible: bool


def build_cfg(program: Program) -> tuple[Program, ControlFlowGraph]:
    """Drop what cannot be reached, join chains, give each loop one latch, and number blocks in execution order."""
    blocks = _without_detours(list(program.blocks))
    blocks = _compact(_joined(_compact(blocks)))
    latched = _single_latches(blocks)
    order = _order(_edges(latched))
    blocks = _renumbered(latched, order)
    edges = _edges(blocks)
    dominator = dominators(edges)
    back = frozenset((u, v) for u, targets in enumerate(edges) for v in targets if v <= u)
    leaving = [number for number, block in enumerate(blocks) if EXIT in block.targets or not block.targets]
    graph = ControlFlowGraph(
        successors=tuple(map(tuple, edges)),
        predecessors=tuple(map(tuple, reversed_edges(edges))),
        reconvergence_point=tuple(post_dominators(edges, leaving)),
        back_edges=back,
        reducible=all(dominates(dominator, header, latch) for latch, header in back),
    )
    return replace(program, blocks=tuple(blocks)), graph


# ---- shaping the blocks ----------------------------------------------------------------------------------------------


def _retarget(end: Terminator, to: Callable[[int], int]) -> Terminator:
    match end:
        case Jump(target):
            return Jump(to(target))
        case Branch(guard, taken, other):
            taken, other = to(taken), to(other)
            return Jump(taken) if taken == other else Branch(guard, taken, other)
        case Switch(index, targets):
            return Switch(index, tuple(map(to, targets)))
        case BarrierSync(instruction, target):
            return BarrierSync(instruction, to(target))
        case RecursiveCall():
            return replace(end, callee=to(end.callee), target=to(end.target))
        case _:
            return end


def _without_detours(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """Send edges past empty blocks; an edge to a bare return ends the thread at once."""

    def final(number: int) -> int:
        seen: set[int] = set()
        while number != EXIT and number not in seen:
            seen.add(number)
            block = blocks[number]
            if block.code or not isinstance(block.terminator, Jump):
                break
            number = block.terminator.target
        return number

    def shortened(end: Terminator) -> Terminator:
        # What is resumed after a barrier must be a block, even when it only ends the thread.
        return end if isinstance(end, BarrierSync | RecursiveCall) else _retarget(end, final)

    return [BasicBlock(block.code, shortened(block.terminator)) for block in blocks]


def _compact(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """Keep the blocks that can be reached from block 0."""
    seen = {0}
    work = [0]
    while work:
        for target in blocks[work.pop()].targets:
            if target != EXIT and target not in seen:
                seen.add(target)
                work.append(target)
    return _renumbered(blocks, sorted(seen))


def _joined(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """Append a block to its only predecessor where that only jumps to it and nobody must wait between them."""
    entries = [0] * len(blocks)
    entries[0] = 1
    for block in blocks:
        for target in block.targets:
            if target != EXIT:
                entries[target] += 1
    blocks = list(blocks)
    gone: set[int] = set()
    for number in range(len(blocks)):
        if number in gone:
            continue
        while True:
            block = blocks[number]
            end = block.terminator
            if not isinstance(end, Jump) or end.target in (EXIT, number, 0) or entries[end.target] != 1:
                break
            following = blocks[end.target]
            if isinstance(following.terminator, BarrierSync) or (following.code and is_collective(following.code[0])):
                break
            gone.add(end.target)
            blocks[number] = BasicBlock(block.code + following.code, following.terminator)
            blocks[end.target] = BasicBlock((), Jump(EXIT))
    return blocks


def _single_latches(blocks: list[BasicBlock]) -> list[BasicBlock]:
    edges = _edges(blocks)
    dominator = dominators(edges)
    latches: dict[int, list[int]] = {}
    for u, targets in enumerate(edges):
        for v in set(targets):
            if dominates(dominator, v, u):
                latches.setdefault(v, []).append(u)
    blocks = list(blocks)
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


# ---- order -----------------------------------------------------------------------------------------------------------


def _order(edges: Edges) -> list[int]:
    """Return the blocks in topological order with every natural loop contiguous."""
    dominator = dominators(edges)
    members: dict[int, set[int]] = {}
    predecessors = reversed_edges(edges)
    for u, targets in enumerate(edges):
        for v in targets:
            if dominates(dominator, v, u):
                members.setdefault(v, {v}).update(_reaching(predecessors, u, v))
    parent: dict[int, int | None] = {}
    for header, body in members.items():
        around = [h for h, other in members.items() if h != header and header in other and body <= other]
        parent[header] = min(around, key=lambda h: len(members[h]), default=None)
    innermost: list[int | None] = [None] * len(edges)
    for header in sorted(members, key=lambda h: -len(members[h])):
        for block in members[header]:
            innermost[block] = header

    def place(block: int, loop: int | None) -> int | None:
        """Return what stands for ``block`` inside ``loop``: itself, or the header of the child loop around it."""
        inner = innermost[block]
        if inner == loop:
            return block
        while inner is not None and parent[inner] != loop:
            inner = parent[inner]
        return inner

    result: list[int] = []
    # An explicit stack of pending nodes: (block, loop it is to be expanded in).
    work: list[tuple[int, int | None, bool]] = [(0, None, True)]
    while work:
        node, loop, collapsed = work.pop()
        if not collapsed:
            result.append(node)
            continue
        inside = members[loop] if loop is not None else None
        for child in reversed(_topological(edges, node, loop, inside, place)):
            is_loop = child in members and child != loop
            work.append((child, child if is_loop else loop, is_loop))
    return result


def _reaching(predecessors: Edges, latch: int, header: int) -> set[int]:
    seen, work = {header}, [latch]
    while work:
        block = work.pop()
        if block not in seen:
            seen.add(block)
            work.extend(predecessors[block])
    return seen


def _topological(
    edges: Edges, start: int, loop: int | None, inside: set[int] | None, place: Callable[[int, int | None], int | None]
) -> list[int]:
    """Order the nodes of one loop level, child loops as single nodes; short sides of a branch come first."""
    nodes: dict[int, list[int]] = {}
    for block in range(len(edges)) if inside is None else sorted(inside):
        node = place(block, loop)
        if node is None:
            continue
        targets = nodes.setdefault(node, [])
        for target in edges[block]:
            if inside is not None and target not in inside:
                continue
            other = place(target, loop)
            if other is not None and other not in (node, loop) and other not in targets:
                targets.append(other)
    first = place(start, loop)
    assert first is not None
    weight = _weights(nodes, first)
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


def _weights(nodes: Mapping[int, list[int]], first: int) -> dict[int, int]:
    """Return a rough size of what follows each node: the longest way to the end."""
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
