"""Generation of the cases of a plan from a master seed, and of a single case from its key."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpuemu_lsp.engine.fuzz import size_classes
from gpuemu_lsp.engine.fuzz.dtypes import is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.geometry import CaseGeometry, ImpossibleError, evaluate_plan
from gpuemu_lsp.engine.fuzz.integers import SMALL_INTEGERS, offsets, plant
from gpuemu_lsp.engine.fuzz.model import Array, Case, CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.recorded import recorded_case, recorded_cases
from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed
from gpuemu_lsp.engine.fuzz.size_classes import DimSizes
from gpuemu_lsp.engine.fuzz.strategies import NO_SLOTS, QUICK, SPECIAL_SLOTS, TESTED_SLOTS, Recipe, recipe
from gpuemu_lsp.engine.fuzz.values import MASKED_ROW, SPECIAL_ROWS, SPECIAL_RUNS, draw
from gpuemu_lsp.engine.fuzz.variants import MEDIUM, SMALL, Variants, variants_of
from gpuemu_lsp.engine.plan.facts import PlanOrigin, Tried
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate

MAX_ELEMENTS = 400_000
"""Limit of the elements of all tensors of a case, unless the minimum sizes exceed it."""
MAX_WORK = 2_000_000
"""Limit of the product of all dims (the multiplications of a matmul) and of the number of threads, likewise."""
DECLARED_ELEMENTS, DECLARED_WORK = 10 * MAX_ELEMENTS, 10 * MAX_WORK
"""The same limits for a size that gpuemu.toml declares, where all others are as small as they can be."""
HARD_ELEMENTS = 64_000_000
"""Limit of the elements of a case in any configuration."""

_SMALL_INTEGERS = (-4, 5)
"""Range of integers of which nothing is known."""
_ZERO = (0, 1)
_FALLBACKS = ("regular", "medium", "default", "large", "small", "default", "warp", "boundary")


def cases(
    plan: Plan, master_seed: int, count: int, hints: LaunchHints | None = None, strategy: str = QUICK
) -> Iterator[Case]:
    """Yield up to ``count`` cases, in the order of the strategy.

    Case ``i`` has the seed ``derive(master_seed, "iter_<i>")``. A case for which no launchable sizes were found is left
    out.

    Raises
    ------
    PlanError
        If no case can be launched.
    ValueError
        If ``strategy`` is unknown.
    """
    hints = hints or LaunchHints()
    dims = size_classes.dim_sizes(plan, hints)
    if plan.recorded is not None:
        yield from recorded_cases(
            plan, plan.recorded, master_seed, count, lambda seed, how: _choose(plan, dims, seed, how, {})[1]
        )
        return
    variants = _variants(plan, master_seed, dims)
    fixed = {} if variants is None else variants.fixed
    included = [(dim.spec.name, value) for dim in dims for value in dim.spec.include if dim.spec.name not in fixed]
    narrow = any(isinstance(arg, TensorArg) and arg.dtype == "float16" for arg in plan.args)
    special = special_slots(plan)
    built, reason = 0, "no sizes to try"
    for index in range(count):
        seed = derive_seed(master_seed, f"iter_{index}")
        how = recipe(strategy, index, hints.linear, narrow, hints.half, special)
        wanted = _included(included, index)
        try:
            geometry, chosen = _choose(plan, dims, seed, how, wanted, variants)
        except ImpossibleError as error:
            reason = str(error)
            continue
        built += 1
        yield _case(plan, CaseKey(seed, how.name, chosen), chosen, geometry, how)
    if count > 0 and built == 0:
        raise PlanError(f"no sizes within the dims of '{plan.kernel}' can be launched: {reason}")


def special_slots(plan: Plan) -> Mapping[int, str]:
    """Return the default cases that have NaN and infinities, by number: those of a registered kernel with any inputs.

    What an unregistered kernel may be called with is not known, unless it tests its inputs for these values.
    """
    if plan.facts.origin is PlanOrigin.CONFIGURATION:
        return SPECIAL_SLOTS if any(_is_any_float(arg) for arg in plan.args) else NO_SLOTS
    return TESTED_SLOTS if any(fact.tried is Tried.SPECIAL for fact in plan.facts.values.values()) else NO_SLOTS


def _is_any_float(arg: TensorArg | ScalarArg) -> bool:
    return isinstance(arg, TensorArg) and arg.direction != "out" and is_float(arg.dtype) and arg.range is None


def rebuild(plan: Plan, key: CaseKey, hints: LaunchHints | None = None) -> Case:
    """Return the case of a key, bit for bit equal to the one generated.

    With other ``dims`` in the key, the case has the same seed and recipe at those sizes.

    Raises
    ------
    PlanError
        If the sizes of the key cannot be launched.
    """
    if plan.recorded is not None:
        return recorded_case(plan, plan.recorded, key)
    how = recipe(key.strategy, 0)
    dims = size_classes.dim_sizes(plan, hints or LaunchHints())
    try:
        if key.dims is None:
            geometry, chosen = _choose(plan, dims, key.seed, how, {})
        else:
            chosen = {name: int(value) for name, value in key.dims.items()}
            geometry = _evaluate(plan, chosen, key.seed, how)
        return _case(plan, CaseKey(key.seed, key.strategy, chosen), chosen, geometry, how)
    except ImpossibleError as error:
        raise PlanError(f"the case cannot be launched: {error}") from error


def bounds_of(plan: Plan, dims: Mapping[str, int]) -> Mapping[str, tuple[float, float] | None]:
    """Return the range of each input's values at these sizes, None for an input without one.

    Raises
    ------
    PlanError
        If the sizes cannot be launched.
    """
    try:
        env = evaluate_plan(plan, dims, None).env
        given = [arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction != "out"]
        return {arg.param: None if _tried(plan, arg) is Tried.ANY else _bounds(arg, plan, env) for arg in given}
    except ImpossibleError as error:
        raise PlanError(f"the case cannot be launched: {error}") from error


_INCLUDE_SLOTS = (3, 5, 7, 2, 6, 4)


def _included(pairs: list[tuple[str, int]], index: int) -> Mapping[str, int]:
    """Return the ``include`` value that case ``index`` must have: one at a time, spread over the first cases."""
    if not pairs:
        return {}
    if index < 8:
        place = _INCLUDE_SLOTS.index(index) if index in _INCLUDE_SLOTS else len(pairs)
        return dict(pairs[place : place + 1])
    later = len(_INCLUDE_SLOTS) + (index - 8) // 2
    return dict([pairs[later % len(pairs)]]) if index % 2 or later < len(pairs) else {}


def _choose(
    plan: Plan,
    dims: tuple[DimSizes, ...],
    seed: int,
    how: Recipe,
    wanted: Mapping[str, int],
    variants: Variants | None = None,
) -> tuple[CaseGeometry, dict[str, int]]:
    """Draw sizes until they can be launched within the limits, with one of ``variants``.

    Raises
    ------
    ImpossibleError
        If no sizes drawn can be launched; with the reason for the first.
    """
    shape_rng = Rng(seed).derive("shape")
    lead = _lead(dims, how)
    keep = {*wanted, *(dim.spec.name for dim in dims[lead : lead + 1])}
    first: ImpossibleError | None = None
    for attempt, kind in enumerate((how.sizes, *_FALLBACKS)):
        rng = shape_rng if attempt == 0 else shape_rng.derive(f"attempt_{attempt}")
        chosen = size_classes.draw(dims, kind, rng, lead, plan.facts.path.multiples)
        if attempt < 2:
            chosen = size_classes.override(dims, chosen, wanted)
        if variants is not None:
            chosen = variants.moved(
                chosen, {name: chosen[name] for name in wanted if attempt < 2}, rng.derive("variant")
            )
            keep |= variants.deciding
        try:
            return _shrunk_to_fit(plan, dims, chosen, keep, seed, how)
        except ImpossibleError as error:
            first = first or error
    raise first or ImpossibleError("no sizes to try")


def _variants(plan: Plan, master_seed: int, dims: tuple[DimSizes, ...]) -> Variants | None:
    """Return the variants that the cases of a seed may have; None for any."""

    def draw(index: int, fixed: Mapping[str, int]) -> Mapping[str, int]:
        seed, how = derive_seed(master_seed, f"iter_{index}"), recipe(QUICK, index)
        with contextlib.suppress(ImpossibleError):
            if index in (MEDIUM, SMALL):
                return {**_choose(plan, dims, seed, how, fixed)[1], **fixed}
        return {**size_classes.draw(dims, how.sizes, Rng(seed).derive("shape"), _lead(dims, how)), **fixed}

    return variants_of(plan, dims, draw)


def _lead(dims: tuple[DimSizes, ...], how: Recipe) -> int:
    """Return the index of the leading dim.

    It is the last one first (columns, depth), but for the class ``ones`` the first one (a single row).
    """
    free = [index for index, dim in enumerate(dims) if dim.free]
    if not free:
        return 0
    return free[(how.lead if how.sizes == "ones" else -1 - how.lead) % len(free)]


def _shrunk_to_fit(
    plan: Plan, dims: tuple[DimSizes, ...], chosen: dict[str, int], keep: set[str], seed: int, how: Recipe
) -> tuple[CaseGeometry, dict[str, int]]:
    """Halve the largest dims until the case can be launched within the limits; those in ``keep`` last.

    A size of ``keep`` that gpuemu.toml declares is halved only beyond the larger limits.
    """
    reason: ImpossibleError | None = None
    while True:
        try:
            geometry: CaseGeometry | None = _evaluate(plan, chosen, seed, how)
        except ImpossibleError as error:
            geometry, reason = None, reason or error
        if geometry is not None and _within(geometry, chosen, MAX_ELEMENTS, MAX_WORK):
            return geometry, chosen
        smaller = _smaller([dim for dim in dims if dim.spec.name not in keep], chosen)
        may_be_large = smaller is None and _declares(plan, dims, chosen, keep)
        if geometry is not None and may_be_large and _within(geometry, chosen, DECLARED_ELEMENTS, DECLARED_WORK):
            return geometry, chosen
        smaller = smaller or _smaller(dims, chosen)
        if smaller is None:
            if geometry is None:
                raise reason or ImpossibleError("the case cannot be launched")
            if geometry.elements > HARD_ELEMENTS:
                raise ImpossibleError(f"even the smallest case has {geometry.elements} elements")
            return geometry, chosen
        chosen = smaller


def _declares(plan: Plan, dims: tuple[DimSizes, ...], chosen: Mapping[str, int], keep: set[str]) -> bool:
    """Return whether gpuemu.toml declares a size of ``keep``, as a maximum or one that is always tried."""
    kept = [dim.spec for dim in dims if dim.spec.name in keep]
    configured = plan.facts.origin is PlanOrigin.CONFIGURATION
    return configured and any(chosen[spec.name] in (spec.maximum, *spec.include) for spec in kept)


def _evaluate(plan: Plan, chosen: Mapping[str, int], seed: int, how: Recipe) -> CaseGeometry:
    """Evaluate the plan with its scalars and ranges, which may have no value for some sizes."""
    # Sizes of host code may stand for larger constants, for which a condition holds.
    if plan.facts.origin is not PlanOrigin.HOST_CODE and not plan.facts.path.allows(chosen):
        raise ImpossibleError("the program does not launch it with these sizes")
    geometry = evaluate_plan(plan, chosen, Rng(seed).derive("layout"), how.varied, how.tight)
    for arg in plan.args:
        if isinstance(arg, ScalarArg):
            _scalar(arg, geometry.env)
        elif arg.direction != "out":
            _check_bounds(arg, _bounds(arg, plan, geometry.env))
    return geometry


def _within(geometry: CaseGeometry, chosen: Mapping[str, int], elements: int, most_work: int) -> bool:
    work = max(math.prod(chosen.values()), geometry.threads)
    return geometry.elements <= elements and work <= most_work


def _smaller(dims: Sequence[DimSizes], chosen: Mapping[str, int]) -> dict[str, int] | None:
    """Return the sizes with one of some dims about halved, the largest first, or None if all have their minimum."""
    for dim in sorted(dims, key=lambda dim: chosen[dim.spec.name], reverse=True):
        less = dim.smaller(chosen[dim.spec.name])
        if less < chosen[dim.spec.name]:
            return {**chosen, dim.spec.name: less}
    return None


def _case(plan: Plan, key: CaseKey, dims: Mapping[str, int], geometry: CaseGeometry, how: Recipe) -> Case:
    data = Rng(key.seed).derive("data")
    special = _largest_float(plan, geometry) if how.values == SPECIAL_ROWS else None
    tensors: dict[str, Array] = {}
    outputs: dict[str, tuple[int, ...]] = {}
    scalars: dict[str, np.generic] = {}
    for arg in plan.args:
        if isinstance(arg, ScalarArg):
            scalars[arg.param] = _scalar(arg, geometry.env)
        elif arg.direction == "out":
            outputs[arg.param] = geometry.shapes[arg.param]
        else:
            stream = data.derive(f"input_{len(tensors)}")
            bounds = _bounds(arg, plan, geometry.env)
            # The other half of the cases, and those that search for lengths, have values that are valid as indices.
            tried = _tried(plan, arg)
            if tried is Tried.RISING:
                most = 0 if key.seed % 2 else _largest_offset(arg, plan, geometry.env)
                tensors[arg.param] = offsets(stream, arg.dtype, geometry.shapes[arg.param], most)
                continue
            if key.seed % 2 and tried in (Tried.ANY, Tried.INDICES):
                bounds = _SMALL_INTEGERS if tried is Tried.ANY else _ZERO
            values = MASKED_ROW if special not in (None, arg.param) else how.values
            if how.values == SPECIAL_RUNS and _tried(plan, arg) is not Tried.SPECIAL:
                values = "uniform"
            tensors[arg.param] = draw(values, stream, arg.dtype, geometry.shapes[arg.param], bounds)
            if bounds is _SMALL_INTEGERS and plan.facts.values[arg.param].constants:
                plant(stream.derive("constants"), tensors[arg.param], plan.facts.values[arg.param].constants)
    for name in tensors:
        # Aliases have one buffer, so their values are the same.
        tensors[name] = tensors.get(geometry.layout.get(f"alias:{name}", name), tensors[name])
    return Case(
        key=key,
        dtype=plan.dtype,
        dims=dict(dims),
        tensors=tensors,
        scalars=scalars,
        outputs=outputs,
        grid=geometry.grid,
        block=geometry.block,
        shared_bytes=geometry.shared_bytes,
        values=how.values,
        exact=how.values == SMALL_INTEGERS and all(_integral(value) for value in tensors.values()),
        finite=all(_finite(value) for value in tensors.values()),
        extra=geometry.layout,
    )


def _tried(plan: Plan, arg: TensorArg) -> Tried:
    """Return which numbers are tried in a buffer."""
    fact = plan.facts.values.get(arg.param)
    return Tried.RANGE if fact is None else fact.tried


def _largest_offset(arg: TensorArg, plan: Plan, env: Mapping[str, int]) -> int:
    """Return what the offsets of rows may be at most: the end of the indices in their range, or the smallest size."""
    end = int(_bound(arg.range[1], env)) if arg.range is not None else 1
    # The range that host code shows is that of the offsets themselves.
    end -= plan.facts.origin is PlanOrigin.HOST_CODE
    return end if end > 1 else min((env[dim.name] for dim in plan.dims), default=1)


def _bounds(arg: TensorArg, plan: Plan, env: Mapping[str, int]) -> tuple[float, float] | None:
    if arg.range is not None:
        return _bound(arg.range[0], env), _bound(arg.range[1], env)
    if plan.inferred and not is_float(arg.dtype) and arg.dtype != "bool":
        # The integers of an unregistered kernel may be indices: keep them valid for every buffer.
        return 0, max(1, min((env[dim.name] for dim in plan.dims), default=1))
    return None


def _largest_float(plan: Plan, geometry: CaseGeometry) -> str:
    """Return the floating-point input of any value with the most elements, empty if there is none."""
    names = [arg.param for arg in plan.args if isinstance(arg, TensorArg) and _is_any_float(arg)]
    return max(names, key=lambda name: math.prod(geometry.shapes[name]), default="")


def _check_bounds(arg: TensorArg, bounds: tuple[float, float] | None) -> None:
    if bounds is None or arg.dtype == "bool":
        return
    low, high = bounds
    if is_float(arg.dtype):
        if not low <= high:
            raise ImpossibleError(f"the range [{low:g}, {high:g}] of {arg.param} is empty")
        return
    info = np.iinfo(arg.dtype)
    if max(low, int(info.min)) >= min(high, int(info.max) + 1):
        raise ImpossibleError(f"the range [{low}, {high}) of {arg.param} contains no {arg.dtype}")


def _bound(bound: Expression | float, env: Mapping[str, int]) -> float:
    if not isinstance(bound, Expression):
        return bound
    try:
        return evaluate(bound, env)
    except ExpressionError as error:
        raise ImpossibleError(f"range {bound}: {error.message}") from error


def _scalar(arg: ScalarArg, env: Mapping[str, int]) -> np.generic:
    value: float | bool
    if isinstance(arg.value, Expression):
        try:
            value = evaluate(arg.value, env)
        except ExpressionError as error:
            raise ImpossibleError(f"{arg.param} = {arg.value}: {error.message}") from error
    else:
        value = arg.value
    if arg.dtype != "bool" and not is_float(arg.dtype):
        info = np.iinfo(arg.dtype)
        if not info.min <= value <= info.max:
            raise ImpossibleError(f"{arg.param} = {value} does not fit {arg.dtype}")
        value = int(value)
    scalar: np.generic = numpy_dtype(arg.dtype).type(value)
    return scalar


def _integral(values: Array) -> bool:
    wide = values.astype(np.float64)
    return bool(np.all(wide == np.rint(wide)))


def _finite(values: Array) -> bool:
    return values.dtype.kind in "biu" or bool(np.isfinite(values.astype(np.float64)).all())
