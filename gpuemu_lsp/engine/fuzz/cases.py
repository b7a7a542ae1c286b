"""Cases of a plan: from a master seed to sizes, values and a launch. A key rebuilds its case bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from gpuemu_lsp.engine.fuzz import sizes as size_classes
from gpuemu_lsp.engine.fuzz.dtypes import is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.geometry import Geometry, ImpossibleError, settle
from gpuemu_lsp.engine.fuzz.integers import SMALL_INTEGERS
from gpuemu_lsp.engine.fuzz.model import Array, Case, CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed
from gpuemu_lsp.engine.fuzz.sizes import Sizes
from gpuemu_lsp.engine.fuzz.strategies import QUICK, Recipe, recipe
from gpuemu_lsp.engine.fuzz.values import draw
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate

MAX_ELEMENTS = 400_000
"""All tensors of a case together stay below, where the bounds of the dims leave room."""
MAX_WORK = 2_000_000
"""The product of all dims (what a matmul multiplies) and the number of threads stay below, likewise."""
HARD_ELEMENTS = 64_000_000
"""No case is built beyond this, whatever the toml says."""

_FALLBACKS = ("regular", "medium", "default", "large", "small", "default", "warp", "boundary")


def cases(
    plan: Plan, master_seed: int, count: int, hints: LaunchHints | None = None, strategy: str = QUICK
) -> Iterator[Case]:
    """Yield up to ``count`` cases, the most telling ones first.

    Case ``i`` has the seed ``derive(master_seed, "iter_<i>")``. One whose launch is impossible for every size tried is
    left out, so fewer may come.

    Raises
    ------
    PlanError
        If not a single case can be launched.
    ValueError
        If ``strategy`` is unknown.
    """
    hints = hints or LaunchHints()
    dims = size_classes.describe(plan, hints)
    included = [(dim.spec.name, value) for dim in dims for value in dim.spec.include]
    narrow = any(isinstance(arg, TensorArg) and arg.dtype == "float16" for arg in plan.args)
    built, trouble = 0, "no sizes to try"
    for index in range(count):
        seed = derive_seed(master_seed, f"iter_{index}")
        how = recipe(strategy, index, hints.linear, narrow)
        wanted = _included(included, index)
        try:
            geometry, chosen = _choose(plan, dims, seed, how, wanted)
        except ImpossibleError as error:
            trouble = str(error)
            continue
        built += 1
        yield _case(plan, CaseKey(seed, how.name, chosen), chosen, geometry, how)
    if count > 0 and built == 0:
        raise PlanError(f"no sizes within the dims of '{plan.kernel}' can be launched: {trouble}")


def rebuild(plan: Plan, key: CaseKey, hints: LaunchHints | None = None) -> Case:
    """Build the case of a key again, bit for bit; with other ``dims`` in the key, the same seed at those sizes.

    Raises
    ------
    PlanError
        If the sizes of the key cannot be launched.
    """
    how = recipe(key.strategy, 0)
    dims = size_classes.describe(plan, hints or LaunchHints())
    try:
        if key.dims is None:
            geometry, chosen = _choose(plan, dims, key.seed, how, {})
        else:
            chosen = {name: int(value) for name, value in key.dims.items()}
            geometry = _settle(plan, chosen, key.seed, how)
        return _case(plan, CaseKey(key.seed, key.strategy, chosen), chosen, geometry, how)
    except ImpossibleError as error:
        raise PlanError(f"the case cannot be launched: {error}") from error


def bounds_of(plan: Plan, dims: Mapping[str, int]) -> Mapping[str, tuple[float, float] | None]:
    """Return, for every input, the range its values must be from at these sizes; None where any will do.

    Raises
    ------
    PlanError
        If the sizes cannot be launched.
    """
    try:
        env = settle(plan, dims, None).env
        given = [arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction != "out"]
        return {arg.param: _bounds(arg, plan, env) for arg in given}
    except ImpossibleError as error:
        raise PlanError(f"the case cannot be launched: {error}") from error


# ---- sizes -----------------------------------------------------------------------------------------------------------

_INCLUDE_SLOTS = (3, 5, 7, 2, 6, 4)


def _included(pairs: list[tuple[str, int]], index: int) -> Mapping[str, int]:
    """Return the ``include`` value case ``index`` must take: one at a time, spread over the first cases."""
    if not pairs:
        return {}
    if index < 8:
        place = _INCLUDE_SLOTS.index(index) if index in _INCLUDE_SLOTS else len(pairs)
        return dict(pairs[place : place + 1])
    later = len(_INCLUDE_SLOTS) + (index - 8) // 2
    return dict([pairs[later % len(pairs)]]) if index % 2 or later < len(pairs) else {}


def _choose(
    plan: Plan, dims: tuple[Sizes, ...], seed: int, how: Recipe, wanted: Mapping[str, int]
) -> tuple[Geometry, dict[str, int]]:
    """Draw sizes until they can be launched and paid for.

    Raises
    ------
    ImpossibleError
        If nothing that was tried can be launched; with the first reason.
    """
    shape_rng = Rng(seed).derive("shape")
    lead = _lead(dims, how)
    keep = {*wanted, *(dim.spec.name for dim in dims[lead : lead + 1])}
    first: ImpossibleError | None = None
    for attempt, kind in enumerate((how.sizes, *_FALLBACKS)):
        rng = shape_rng if attempt == 0 else shape_rng.derive(f"attempt_{attempt}")
        chosen = size_classes.draw(dims, kind, rng, lead)
        if attempt < 2:
            chosen = size_classes.override(dims, chosen, wanted)
        try:
            return _shrunk_to_fit(plan, dims, chosen, keep, seed, how)
        except ImpossibleError as error:
            first = first or error
    raise first or ImpossibleError("no sizes to try")


def _lead(dims: tuple[Sizes, ...], how: Recipe) -> int:
    """Return the index of the dim that leads: the last one first (columns, depth), but a single row before a column."""
    free = [index for index, dim in enumerate(dims) if dim.free]
    if not free:
        return 0
    return free[(how.lead if how.sizes == "ones" else -1 - how.lead) % len(free)]


def _shrunk_to_fit(
    plan: Plan, dims: tuple[Sizes, ...], chosen: dict[str, int], keep: set[str], seed: int, how: Recipe
) -> tuple[Geometry, dict[str, int]]:
    """Halve the largest dims until the case is possible and affordable; those in ``keep`` last."""
    trouble: ImpossibleError | None = None
    while True:
        try:
            geometry: Geometry | None = _settle(plan, chosen, seed, how)
        except ImpossibleError as error:
            geometry, trouble = None, trouble or error
        if geometry is not None and _affordable(geometry, chosen):
            return geometry, chosen
        smaller = _smaller(dims, chosen, keep)
        if smaller is None:
            if geometry is None:
                raise trouble or ImpossibleError("the case cannot be launched")
            if geometry.elements > HARD_ELEMENTS:
                raise ImpossibleError(f"even the smallest case has {geometry.elements} elements")
            return geometry, chosen
        chosen = smaller


def _settle(plan: Plan, chosen: Mapping[str, int], seed: int, how: Recipe) -> Geometry:
    """Evaluate the plan, scalars and ranges included: sizes for which one of them has no value are no good either."""
    geometry = settle(plan, chosen, Rng(seed).derive("layout"), how.odd, how.tight)
    for arg in plan.args:
        if isinstance(arg, ScalarArg):
            _scalar(arg, geometry.env)
        elif arg.direction != "out":
            _check_bounds(arg, _bounds(arg, plan, geometry.env))
    return geometry


def _affordable(geometry: Geometry, chosen: Mapping[str, int]) -> bool:
    work = max(math.prod(chosen.values()), geometry.threads)
    return geometry.elements <= MAX_ELEMENTS and work <= MAX_WORK


def _smaller(dims: tuple[Sizes, ...], chosen: dict[str, int], keep: set[str]) -> dict[str, int] | None:
    """Return the sizes with one dim about halved, or None when all are as small as they may be."""
    for candidates in ([dim for dim in dims if dim.spec.name not in keep], list(dims)):
        for dim in sorted(candidates, key=lambda dim: chosen[dim.spec.name], reverse=True):
            less = dim.smaller(chosen[dim.spec.name])
            if less < chosen[dim.spec.name]:
                return {**chosen, dim.spec.name: less}
    return None


# ---- values ----------------------------------------------------------------------------------------------------------


def _case(plan: Plan, key: CaseKey, dims: Mapping[str, int], geometry: Geometry, how: Recipe) -> Case:
    data = Rng(key.seed).derive("data")
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
            tensors[arg.param] = draw(how.values, stream, arg.dtype, geometry.shapes[arg.param], bounds)
    for name in tensors:
        tensors[name] = tensors.get(geometry.layout.get(f"alias:{name}", name), tensors[name])  # the same memory
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


def _bounds(arg: TensorArg, plan: Plan, env: Mapping[str, int]) -> tuple[float, float] | None:
    if arg.range is not None:
        return _bound(arg.range[0], env), _bound(arg.range[1], env)
    if plan.inferred and not is_float(arg.dtype) and arg.dtype != "bool":
        # Nobody said what these integers are. They may be indices: keep them valid for any buffer.
        return 0, max(1, min((env[dim.name] for dim in plan.dims), default=1))
    return None


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
        raise ImpossibleError(f"the range [{low}, {high}) of {arg.param} holds no {arg.dtype}")


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
