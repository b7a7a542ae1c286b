"""Learn buffer sizes by running the kernel: for signatures that do not say them.

A kernel with the sizes M, N and K and no gpuemu.toml could read a[M*K] or a[K*N]. On sizes that are multiples of every
usual tile no tail is involved, so the smallest product of sizes that the kernel stays inside of is what its author had
in mind. Ragged sizes are then checked against that. Where no product fits, or two regular size assignments disagree,
nothing is concluded and nothing is reported: a guess would be a false alarm.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.plan.types import dtype_size
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate, parse

_ROUNDS = 48
_SECONDS = 5.0
"""For all runs of one probe. A save must not wait longer for a guess that may come to nothing."""
_MAX_ELEMENTS = 1_000_000
_FACTORS = (1, 2, 3, 4)

RunWithShapes = Callable[[Plan, Mapping[str, int]], Outcome]
"""Runs a plan on given dims with harmless values and returns what happened."""


@dataclass(frozen=True, slots=True)
class Probed:
    """The plan with its shapes and directions learned, or the reason why not."""

    plan: Plan | None
    reason: str = ""


def probe(plan: Plan, run: RunWithShapes) -> Probed:
    """Learn the shapes and directions of an inferred plan."""
    names = [dim.name for dim in plan.dims]
    if not 1 <= len(names) <= 5:
        return Probed(None, f"{len(names)} size parameters are too many to tell the shapes apart")
    first, second = _regular_sizes(names)
    candidates = _candidates(names, first)
    learned = _fit(plan, first, candidates, run)
    if isinstance(learned, str):
        return Probed(None, learned)
    outcome = run(learned, second)
    if outcome.status != "completed" or _faults(outcome):
        return Probed(None, "no product of its sizes explains which elements it touches")
    loose = _loose(learned, first, run) or _loose(learned, second, run)
    if loose is not None:
        return Probed(None, f"no product of its sizes is exactly what it touches of '{loose}'")
    return Probed(_directions(learned, outcome))


def _regular_sizes(names: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return two assignments of distinct multiples of 32 (256 for a single size), in opposite order."""
    if len(names) == 1:
        return {names[0]: 256}, {names[0]: 512}
    step = 64 if len(names) == 2 else 32
    sizes = [step * (index + 1) for index in range(len(names))]
    return dict(zip(names, sizes, strict=True)), dict(zip(names, reversed(sizes), strict=True))


def _candidates(names: list[str], sizes: Mapping[str, int]) -> list[tuple[int, Expression]]:
    """Every shape considered, as one flat length, smallest first; simpler ones before others of the same length."""
    texts: dict[str, int] = {"1": 1}
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            product = " * ".join(chosen)
            for factor in _FACTORS:
                texts[product if factor == 1 else f"{factor} * {product}"] = count * 10 + factor
    for name in names:
        texts[f"{name} * {name}"] = 19
    ranked = []
    for text, complexity in texts.items():
        expression = parse(text)
        try:
            length = evaluate(expression, sizes)
        except ExpressionError:
            continue
        if length <= _MAX_ELEMENTS:
            ranked.append((length, complexity, text, expression))
    ranked.sort(key=lambda item: item[:3])
    return [(length, expression) for length, _, _, expression in ranked]


def _fit(
    plan: Plan, sizes: Mapping[str, int], candidates: list[tuple[int, Expression]], run: RunWithShapes
) -> Plan | str:
    """Start every tensor at the smallest shape and enlarge those the kernel leaves, until it stays inside."""
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg)]
    chosen = {arg.param: 0 for arg in tensors}
    stop = time.perf_counter() + _SECONDS
    for _ in range(_ROUNDS):
        if time.perf_counter() > stop:
            break
        current = _with_shapes(plan, {param: candidates[index][1] for param, index in chosen.items()})
        outcome = run(current, sizes)
        if outcome.status not in ("completed", "trapped"):
            return f"it did not run to its end on regular sizes ({outcome.status})"
        wanted = _needed(outcome, {arg.param: dtype_size(arg.dtype) for arg in tensors})
        if wanted is None:
            return "it leaves its buffers in a way no size explains"
        if not wanted:
            return current if outcome.status == "completed" else "it trapped on regular sizes"
        for param, elements in wanted.items():
            index = chosen[param] + 1
            while index < len(candidates) and candidates[index][0] < elements:
                index += 1
            if index == len(candidates):
                return f"no product of its sizes explains how far it reaches into '{param}'"
            chosen[param] = index
    return "its buffers' sizes could not be told within the probe's budget"


def _loose(plan: Plan, sizes: Mapping[str, int], run: RunWithShapes) -> str | None:
    """Return a tensor whose last element is never touched: its shape only happens to be large enough.

    Sizes that depend on each other (C = heads * width) drawn independently end here, instead of in a false alarm.
    """
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg)]
    shorter = {arg.param: parse(f"max(1, {arg.shape[0]} - 1)") for arg in tensors}
    outcome = run(_with_shapes(plan, shorter), sizes)
    touched = {event.buffer for event in _faults(outcome)}
    lengths = {arg.param: evaluate(arg.shape[0], sizes) for arg in tensors}
    return next((name for name, length in lengths.items() if length > 1 and name not in touched), None)


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
