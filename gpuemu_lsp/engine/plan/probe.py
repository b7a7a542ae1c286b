"""Learn buffer sizes by running the kernel: for signatures that do not say them.

A kernel with the sizes M, N and K and no gpuemu.toml could read a[M*K] or a[K*N]. On sizes that are multiples of every
tile in its launch no tail is involved, so the smallest product of sizes that the kernel stays inside of is what its
author had in mind. Ragged sizes are then checked against that. Where no product fits, or two regular size assignments
disagree, nothing is concluded and nothing is reported: a guess would be a false alarm.

One overrun is told all the same. Nobody allocates rows * cols + 1 elements, so a kernel that touches exactly one more
than a product (``i <= n``) gets the product, and its checks then show the access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.plan.candidates import Candidate, candidates_for, one_block, regular_sizes
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.plan.types import FLOATS, INTEGERS, dtype_size
from gpuemu_lsp.engine.project.expressions import Expression, evaluate, parse

_ROUNDS = 48
_STEPS = 20_000_000
"""For all runs of one probe, in basic blocks of one warp, so that a busy machine comes to the same answer."""
_MOST_SIZES = 6
_READINGS = 3
"""How often tensors that fit loosely get another shape of the same length."""

RunWithShapes = Callable[[Plan, Mapping[str, int]], Outcome]
"""Runs a plan on given dims with harmless values and returns what happened."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The plan with its shapes and directions learned, or the reason why not."""

    plan: Plan | None
    reason: str = ""


@dataclass(slots=True)
class _Search:
    """Which candidate each tensor stands at, by index, and how many steps the runs have taken."""

    runner: RunWithShapes
    candidates: Sequence[Candidate]
    chosen: dict[str, int]
    steps: int = 0
    counters: set[str] = field(default_factory=set)
    """Tensors left by an atomic: the element behind the data may be a flag or a counter."""

    @property
    def spent(self) -> bool:
        return self.steps > _STEPS

    def run(self, plan: Plan, sizes: Mapping[str, int]) -> Outcome:
        outcome = self.runner(plan, sizes)
        self.steps += outcome.steps
        atomics = (event for event in _faults(outcome) if event.instruction.startswith(("atom", "red")))
        self.counters |= {event.buffer for event in atomics if event.buffer is not None}
        return outcome

    def plan(self, plan: Plan) -> Plan:
        return _with_shapes(plan, {param: self.candidates[index].shape for param, index in self.chosen.items()})

    def candidate(self, param: str) -> Candidate:
        return self.candidates[self.chosen[param]]

    def enlarge(self, param: str, elements: int) -> bool:
        """Move to the next candidate that holds ``elements``; False if there is none."""
        index = self.chosen[param] + 1
        while index < len(self.candidates) and self.candidates[index].length < elements:
            index += 1
        self.chosen[param] = index
        return index < len(self.candidates)

    def tie(self, param: str) -> bool:
        """Move to another candidate of the same length on the first sizes; False if there is none."""
        index = self.chosen[param] + 1
        if index == len(self.candidates) or self.candidates[index].length != self.candidate(param).length:
            return False
        self.chosen[param] = index
        return True


def probe(plan: Plan, run: RunWithShapes, constants: Sequence[int] = ()) -> Probed:
    """Learn the shapes and directions of an inferred plan.

    ``constants`` are integer constants of the file: ``NUM_BINS`` may be a length.
    """
    names = [dim.name for dim in plan.dims]
    if not 1 <= len(names) <= _MOST_SIZES:
        return Probed(None, f"{len(names)} size parameters are too many to tell the shapes apart")
    first, second = regular_sizes(plan)
    outcome: Outcome | None = None
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg)]
    search = _Search(run, candidates_for(plan, first, constants), {arg.param: 0 for arg in tensors})
    problem = _fit(plan, first, search)
    if problem is not None:
        return Probed(None, problem)
    loose: set[str] = set()
    for _ in range(_READINGS):
        outcome = _confirm(plan, second, search)
        if outcome is None:
            return Probed(None, "no product of its sizes explains which elements it touches")
        learned = search.plan(plan)
        loose = _loose(learned, first, search.run) | _loose(learned, second, search.run)
        moved = [search.tie(param) for param in sorted(loose)]
        if search.spent or not any(moved):
            break
    beyond = {arg.param for arg in tensors if search.candidate(arg.param).beyond}
    certain = beyond and _certain(tensors, search, beyond)
    if beyond and (not certain or beyond & (loose | search.counters)):
        return Probed(None, "what it touches is one element more than a product of its sizes")
    product = any(search.candidate(param).factors > 1 for param in beyond)
    if loose and not product:
        return Probed(None, f"no product of its sizes is exactly what it touches of '{sorted(loose)[0]}'")
    steered = _loose(_with_zero_indices(learned), second, search.run) - loose if _has_integers(plan) else set()
    if steered:
        return Probed(None, f"how far it reaches into '{sorted(steered)[0]}' depends on the values of its inputs")
    exact = {arg.param: search.candidate(arg.param).allocated for arg in tensors}
    assert outcome is not None
    unsure = _unsure(learned, first, search.run) & _unsure(learned, second, search.run)
    return Probed(replace(_directions(_with_shapes(plan, exact), outcome), unsure=unsure))


def _fit(plan: Plan, sizes: Mapping[str, int], search: _Search) -> str | None:
    """Start every tensor at the smallest shape and enlarge those the kernel leaves; returns why that failed."""
    widths = {arg.param: dtype_size(arg.dtype) for arg in plan.args if isinstance(arg, TensorArg)}
    for _ in range(_ROUNDS):
        if search.spent:
            break
        outcome = search.run(search.plan(plan), sizes)
        if outcome.status not in ("completed", "trapped"):
            return f"it did not run to its end on regular sizes ({outcome.status})"
        wanted = _needed(outcome, widths)
        if wanted is None:
            return "it leaves its buffers in a way no size explains"
        if not wanted:
            return None if outcome.status == "completed" else "it trapped on regular sizes"
        for param, elements in wanted.items():
            if not search.enlarge(param, elements):
                return f"no product of its sizes explains how far it reaches into '{param}'"
    return "its buffers' sizes could not be told within the probe's budget"


def _confirm(plan: Plan, sizes: Mapping[str, int], search: _Search) -> Outcome | None:
    """Run on other sizes; where two shapes were equal on the first ones, these tell which it is."""
    for _ in range(8):
        outcome = search.run(search.plan(plan), sizes)
        left = {event.buffer for event in _faults(outcome)}
        if not left:
            return outcome if outcome.status == "completed" else None
        if search.spent or not all(param in search.chosen and search.tie(param) for param in left if param is not None):
            return None
        if None in left:
            return None
    return None


def _certain(tensors: Sequence[TensorArg], search: _Search, beyond: set[str]) -> bool:
    """Say whether one element too many can only be a mistake.

    Past a product of several sizes it always is. Past a single size it may be meant (row pointers, faces between
    cells): then every tensor of that size must be overrun, and all of them hold floats.
    """
    for arg in tensors:
        mine = search.candidate(arg.param)
        if arg.param in beyond and mine.factors == 1 and arg.dtype not in FLOATS:
            return False
        if arg.param not in beyond and any(
            mine.allocated == search.candidate(param).allocated and search.candidate(param).factors == 1
            for param in beyond
        ):
            return False
    return True


def _loose(plan: Plan, sizes: Mapping[str, int], run: RunWithShapes) -> set[str]:
    """Return the tensors whose last element is never touched: their shape only happens to be large enough.

    Sizes that depend on each other (C = heads * width) drawn independently end here, instead of in a false alarm.
    """
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg)]
    shorter = {arg.param: parse(f"max(1, {arg.shape[0]} - 1)") for arg in tensors}
    outcome = run(_with_shapes(plan, shorter), sizes)
    touched = {event.buffer for event in _faults(outcome)}
    lengths = {arg.param: evaluate(arg.shape[0], sizes) for arg in tensors}
    return {name for name, length in lengths.items() if length > 1 and name not in touched}


def _unsure(plan: Plan, sizes: Mapping[str, int], run: RunWithShapes) -> frozenset[str]:
    """Return the tensors of one element that may be longer: nothing touches them, or there is but one block.

    A single byte in place of the element shows every access to it.
    """
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg) and dtype_size(arg.dtype) > 1]
    single = {arg.param for arg in tensors if evaluate(arg.shape[0], sizes) == 1}
    if not single:
        return frozenset()
    args = tuple(replace(arg, dtype="uint8") if arg in tensors and arg.param in single else arg for arg in plan.args)
    if one_block(plan, sizes):
        return frozenset(single)
    outcome = run(replace(plan, args=args), sizes)
    return frozenset(single - {event.buffer for event in _faults(outcome)})


def _has_integers(plan: Plan) -> bool:
    return any(isinstance(arg, TensorArg) and arg.dtype in INTEGERS and arg.direction == "in" for arg in plan.args)


def _with_zero_indices(plan: Plan) -> Plan:
    """Let every integer input be zero: a table that is then read less far is as long as its indices say."""
    zero = (parse(0), parse(1))
    args = tuple(
        replace(arg, range=zero) if isinstance(arg, TensorArg) and arg.dtype in INTEGERS else arg for arg in plan.args
    )
    return replace(plan, args=args)


def _needed(outcome: Outcome, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Elements each tensor needs at least, from the faults seen; None when a fault has no buffer or lies before one."""
    needed: dict[str, int] = {}
    for event in _faults(outcome):
        if event.buffer is None or event.buffer not in sizes or event.offset is None or event.offset < 0:
            return None
        end = event.offset + (event.size or 1)
        needed[event.buffer] = max(needed.get(event.buffer, 0), -(-end // sizes[event.buffer]))
    return needed


def _faults(outcome: Outcome) -> list[Event]:
    return [event for event in outcome.events if event.rule in ("memory/out-of-bounds", "memory/null-pointer")]


def _with_shapes(plan: Plan, shapes: Mapping[str, Expression]) -> Plan:
    args = tuple(replace(arg, shape=(shapes[arg.param],)) if isinstance(arg, TensorArg) else arg for arg in plan.args)
    return replace(plan, args=args)


def _directions(plan: Plan, outcome: Outcome) -> Plan:
    """A pointer to non-const that is only read is an input; one read before it is written goes in and out."""
    read_first = {event.buffer for event in outcome.events if event.rule == "memory/uninitialized-read"}
    args = []
    for arg in plan.args:
        if isinstance(arg, TensorArg) and arg.direction == "out":
            written = outcome.written is None or bool(outcome.written[arg.param].any())
            if not written:
                arg = replace(arg, direction="in")
            elif arg.param in read_first:
                arg = replace(arg, direction="inout")
        args.append(arg)
    return replace(plan, args=tuple(args))
