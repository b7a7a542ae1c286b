"""Inference of buffer lengths by running the kernel, for plans that are not configured.

From the signature alone, a kernel with the sizes M, N and K could read a[M * K] or a[K * N]. On sizes that are
multiples of every tile of the launch, no partial tile is involved, so the smallest product of sizes that contains all
accesses is the length that its author intended. Other sizes are then checked against it. Where no product fits, or two
assignments of regular sizes disagree, the probe fails and the kernel is not run: a wrong guess would be a false
positive.

One out-of-bounds access is found nevertheless. Host code does not allocate rows * cols + 1 elements, so for a kernel
that accesses exactly one element more than a product (``i <= n``), the product is taken, and the checks report the
access.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.element_types import FLOATS, INTEGERS, dtype_size
from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.plan.candidates import candidates_for, one_block, regular_sizes
from gpuemu_lsp.engine.plan.facts import PlanOrigin
from gpuemu_lsp.engine.plan.length_search import (
    NOT_INDEXED,
    IndexedTensors,
    LengthSearch,
    RunWithShapes,
    faults,
    with_shapes,
)
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate, parse

_MAX_ENLARGEMENTS = 48
_MAX_ELEMENTS = 8_000_000
"""Limit of the elements of a buffer whose length is known: drawing its values takes longer than the launches."""
OVERSIZED = 1 << 16
"""Elements of a buffer whose length is not found."""
_MAX_SIZES = 6
_MAX_RETRIES = 3
"""Limit of retries with another candidate of the same length for tensors that are too long."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The plan with its shapes and directions inferred, or the reason why they could not be.

    ``partial`` is then a plan for which accesses to arrays can be judged, and none to its tensors. ``unfitted`` are the
    tensors whose length was not determined, ``chosen`` those whose length no size shows: integers in memory choose
    their elements.
    """

    plan: Plan | None
    reason: str = ""
    partial: Plan | None = None
    unfitted: frozenset[str] = frozenset()
    chosen: frozenset[str] = frozenset()


def probe(
    plan: Plan, run: RunWithShapes, constants: Sequence[int] = (), indexed: IndexedTensors = NOT_INDEXED
) -> ProbeResult:
    """Infer the shapes and directions of a plan's tensors.

    ``constants`` are integer constants of the file, since ``NUM_BINS`` may be a length. Where no lengths fit, those are
    left open of whose elements integers in memory choose.
    """
    fitted = _probe(plan, run, constants, indexed)
    if fitted.plan is None and fitted.partial is None and indexed.chosen and not _tensors_are(plan, indexed.chosen):
        large = with_shapes(plan, dict.fromkeys(indexed.chosen, parse(OVERSIZED)))
        again = _probe(large, run, constants, indexed, indexed.chosen)
        return fitted if again.plan is None else replace(again, chosen=indexed.chosen)
    return fitted


def _tensors_are(plan: Plan, params: Collection[str]) -> bool:
    """Return whether a plan has no other tensors than these."""
    return all(arg.param in params for arg in _open_tensors(plan))


def _probe(
    plan: Plan, run: RunWithShapes, constants: Sequence[int], indexed: IndexedTensors, given: Collection[str] = ()
) -> ProbeResult:
    """Infer the shapes of the tensors that are not ``given``."""
    if not any(isinstance(arg, TensorArg) for arg in plan.args):
        return ProbeResult(plan)
    names = [dim.name for dim in plan.dims]
    if not 1 <= len(names) <= _MAX_SIZES:
        return ProbeResult(None, f"{len(names)} size parameters are too many to infer the shapes of its buffers")
    first, second = regular_sizes(plan)
    if (elements := _elements(plan, first)) > _MAX_ELEMENTS:
        return ProbeResult(None, f"the search for the lengths of its buffers needs one of {elements:,} elements")
    outcome: Outcome | None = None
    tensors = [arg for arg in _open_tensors(plan) if arg.param not in given]
    usual, longer = (candidates_for(plan, first, constants, ends=ends) for ends in (False, True))
    candidates = {arg.param: longer if arg.param in indexed.rows else usual for arg in tensors}
    search = LengthSearch(run, candidates, {arg.param: 0 for arg in tensors}, indexed.rows)
    unchanged, (plan, problem) = plan, _fit(_with_known(plan, indexed), first, search)
    if problem is not None and (search.array_fault or search.refused) and not search.exhausted:
        # It ended the launch whatever the lengths are, which are therefore not known.
        return ProbeResult(None, problem, search.plan(plan), frozenset(search.chosen))
    if problem is not None:
        return ProbeResult(None, problem)
    too_long: set[str] = set()
    for _ in range(_MAX_RETRIES):
        outcome = _confirm(plan, second, search)
        if outcome is None:
            return ProbeResult(None, "no product of its sizes matches the elements that it accesses")
        inferred = search.plan(plan)
        too_long = _too_long(inferred, first, search) | _too_long(inferred, second, search)
        moved = [search.next_tie(param) for param in sorted(too_long)]
        if search.exhausted or not any(moved):
            break
    refuted = _refuted(plan, search, second, too_long)
    if refuted is not None:
        return ProbeResult(None, refuted)
    exact = {arg.param: search.candidate(arg.param).allocated for arg in tensors}
    assert outcome is not None
    unfitted = _uncertain(inferred, first, search) & _uncertain(inferred, second, search)
    settled = with_shapes(unchanged, exact)
    if plan.facts.origin is not PlanOrigin.HOST_CODE:
        settled = _directions(settled, plan, outcome)
    return ProbeResult(settled, unfitted=unfitted)


def _refuted(plan: Plan, search: LengthSearch, sizes: Mapping[str, int], too_long: Collection[str]) -> str | None:
    """Return why the lengths that the search has chosen cannot be those of the program, None if they can."""
    tensors = [arg for arg in _open_tensors(plan) if arg.param in search.chosen]
    beyond = {arg.param for arg in tensors if search.candidate(arg.param).beyond}
    overrun = beyond and _is_overrun(tensors, search, beyond)
    if beyond and (not overrun or beyond & {*too_long, *search.counters}):
        return "it accesses one element more than a product of its sizes"
    product = any(search.candidate(param).factors > 1 for param in beyond)
    if too_long and not product:
        return f"no product of its sizes is the length of '{sorted(too_long)[0]}'"
    if _has_integers(plan):
        data_dependent = _too_long(_with_zero_indices(search.plan(plan)), sizes, search) - set(too_long)
        if data_dependent:
            first = sorted(data_dependent)[0]
            return f"the elements of '{first}' that it accesses depend on the values of its inputs"
    return None


def _elements(plan: Plan, sizes: Mapping[str, int]) -> int:
    """Return the elements of the largest buffer whose length is known, 0 if there is none."""
    known = [arg.shape for arg in plan.args if isinstance(arg, TensorArg) and arg.shape]
    try:
        return max((math.prod(evaluate(extent, sizes) for extent in shape) for shape in known), default=0)
    except ExpressionError:
        return 0


def _open_tensors(plan: Plan) -> list[TensorArg]:
    """Return the tensors whose length is to be found: of a launch in the program those without one."""
    read = plan.facts.origin is PlanOrigin.HOST_CODE
    tensors = (arg for arg in plan.args if isinstance(arg, TensorArg) and arg.texture is None)
    return [arg for arg in tensors if not (read and arg.shape)]


def _with_known(plan: Plan, indexed: IndexedTensors) -> Plan:
    """Return the plan in which the bounds of rows are initialised, and counters are zero: they are read in any case."""
    if plan.facts.origin is PlanOrigin.HOST_CODE:
        return plan
    possible = {arg.param for arg in plan.args if _may_be_flag(arg)}
    return _read(_read(plan, possible & indexed.rows), possible & indexed.counters, (parse(0), parse(1)))


def _flags_read(plan: Plan, outcome: Outcome) -> set[str]:
    """Return the integers that may be outputs and that a launch has read before they were written.

    A flag that is not initialised may end the kernel before it has accessed any of its buffers, and a counter choose
    elements that no buffer has.
    """
    if plan.facts.origin is PlanOrigin.HOST_CODE:
        return set()
    return {arg.param for arg in plan.args if _may_be_flag(arg) and arg.param in _read_first(outcome)}


def _read(plan: Plan, params: Collection[str | None], values: tuple[Expression, Expression] | None = None) -> Plan:
    """Return the plan in which some tensors are initialised, with values of a range."""
    args = (
        replace(arg, direction="inout", range=values) if isinstance(arg, TensorArg) and arg.param in params else arg
        for arg in plan.args
    )
    return replace(plan, args=tuple(args)) if params else plan


def _may_be_flag(arg: PlanArg) -> bool:
    return isinstance(arg, TensorArg) and arg.direction == "out" and arg.dtype in INTEGERS


def _fit(plan: Plan, sizes: Mapping[str, int], search: LengthSearch) -> tuple[Plan, str | None]:
    """Enlarge each tensor until no access is out of bounds; return the reason if that fails.

    The plan that is returned has zeros in the flags that the launches have read.
    """
    widths = {arg.param: dtype_size(arg.dtype) for arg in plan.args if isinstance(arg, TensorArg)}
    for _ in range(_MAX_ENLARGEMENTS):
        if search.exhausted:
            break
        outcome = search.run(search.plan(plan), sizes)
        if flags := _flags_read(plan, outcome):
            plan = _read(plan, flags, (parse(0), parse(1)))
            continue
        if outcome.status not in ("completed", "trapped"):
            return plan, f"it did not complete on regular sizes ({outcome.status})"
        wanted = _needed(outcome, widths)
        if wanted is None:
            return plan, "its accesses are out of bounds for every length"
        if not wanted and outcome.status != "completed":
            return plan, "it trapped on regular sizes"
        if not wanted and not search.halve():
            return plan, None
        for param, elements in wanted.items():
            if not search.enlarge(param, elements):
                return plan, f"no product of its sizes contains the elements that it accesses in '{param}'"
    return plan, "the lengths of its buffers were not found within the budget of the probe"


def _confirm(plan: Plan, sizes: Mapping[str, int], search: LengthSearch) -> Outcome | None:
    """Run on other sizes, which distinguish candidates that had the same length on the first ones."""
    for _ in range(8):
        outcome = search.run(search.plan(plan), sizes)
        left = {event.buffer for event in faults(outcome)}
        if not left:
            return outcome if outcome.status == "completed" else None
        if search.exhausted or not all(
            param in search.chosen and search.next_tie(param) for param in left if param is not None
        ):
            return None
        if None in left:
            return None
    return None


def _is_overrun(tensors: Sequence[TensorArg], search: LengthSearch, beyond: set[str]) -> bool:
    """Whether accesses to one element more than the product can only be a bug.

    For a product of several sizes they always are. For a single size they may be intended (boundaries between cells):
    they are a bug if all tensors of that size are overrun and hold floats, or are row pointers, whose lengths have that
    element already.
    """
    for arg in tensors:
        mine = search.candidate(arg.param)
        if arg.param in beyond and mine.factors == 1 and arg.dtype not in FLOATS and arg.param not in search.rows:
            return False
        if arg.param not in beyond and any(
            mine.allocated == search.candidate(param).allocated and search.candidate(param).factors == 1
            for param in beyond
        ):
            return False
    return True


def _too_long(plan: Plan, sizes: Mapping[str, int], search: LengthSearch) -> set[str]:
    """Return the tensors whose last element is never accessed: they are longer than the kernel needs.

    Sizes that depend on each other (C = heads * width) and are drawn independently are rejected here; they would cause
    false positives.
    """
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg) and arg.param in search.chosen]
    shorter = {arg.param: parse(f"max(1, {arg.shape[0]} - 1)") for arg in tensors}
    outcome = search.run(with_shapes(plan, shorter), sizes)
    touched = {event.buffer for event in faults(outcome)}
    lengths = {arg.param: evaluate(arg.shape[0], sizes) for arg in tensors}
    return {name for name, length in lengths.items() if length > 1 and name not in touched}


def _uncertain(plan: Plan, sizes: Mapping[str, int], search: LengthSearch) -> frozenset[str]:
    """Return the tensors of one element that may be longer: it is never accessed, or there is only one block.

    With a single byte in place of the element, every access to it is out of bounds and so reported. One of them at a
    time: after such a fault the kernel may go on where it did not before.
    """
    open_tensors = (arg for arg in plan.args if isinstance(arg, TensorArg) and arg.param in search.chosen)
    tensors = [arg for arg in open_tensors if dtype_size(arg.dtype) > 1]
    single = [arg for arg in tensors if evaluate(arg.shape[0], sizes) == 1]
    if one_block(plan, sizes):
        return frozenset(arg.param for arg in single)
    uncertain: set[str] = set()
    for one in single:
        args = tuple(replace(arg, dtype="uint8") if arg is one else arg for arg in plan.args)
        outcome = search.run(replace(plan, args=args), sizes)
        if one.param not in {event.buffer for event in faults(outcome)}:
            uncertain.add(one.param)
    return frozenset(uncertain)


def _has_integers(plan: Plan) -> bool:
    return any(isinstance(arg, TensorArg) and arg.dtype in INTEGERS and arg.direction == "in" for arg in plan.args)


def _with_zero_indices(plan: Plan) -> Plan:
    """Return the plan with zeros as integer inputs: accesses that then change have indices read from memory."""
    zero = (parse(0), parse(1))
    args = tuple(
        replace(arg, range=zero) if isinstance(arg, TensorArg) and arg.dtype in INTEGERS else arg for arg in plan.args
    )
    return replace(plan, args=args)


def _needed(outcome: Outcome, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Return the elements that each tensor needs, from the faults; None if a fault is in no tensor or before one."""
    needed: dict[str, int] = {}
    for event in faults(outcome):
        if event.buffer is None or event.buffer not in sizes or event.offset is None or event.offset < 0:
            return None
        end = max(event.offset + (event.size or 1), event.furthest or 0)
        needed[event.buffer] = max(needed.get(event.buffer, 0), -(-end // sizes[event.buffer]))
    return needed


def _read_first(outcome: Outcome) -> set[str | None]:
    return {event.buffer for event in outcome.events if event.rule == "memory/uninitialized-read"}


def _directions(plan: Plan, launched: Plan, outcome: Outcome) -> Plan:
    """Infer directions: a tensor that is only read is an input, one read before it is written is ``inout``.

    ``launched`` is the plan of the outcome, in which those known to be read are ``inout`` already.
    """
    read_first = _read_first(outcome)
    read_first |= {one.param for one in launched.args if isinstance(one, TensorArg) and one.direction == "inout"}
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
