"""Outputs that gpuemu.toml does not declare, or not with their dtype.

Their number, names and shapes are those of the reference, evaluated at a few sizes: each extent is written as an
expression over dims that has its values. Dtypes are those of the op where the reference returns values of that kind:
the index of a maximum is an integer of any width, and a sum of fp16 values may be fp32. An op that returns a narrower
float than its inputs are has the wrong dtype.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from gpuemu_lsp.engine.deadline import DeadlineError, deadline
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, is_float
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey, PlanError
from gpuemu_lsp.engine.fuzz.size_classes import allows
from gpuemu_lsp.engine.oracle import Reference, ReferenceFailure, call
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, evaluate, parse
from gpuemu_lsp.engine.project.model import DimSpec

RESULT = "output"
"""Name of the only result of an op that declares none."""

_SIZES = (7, 11, 13, 5, 17, 19, 3, 23, 2, 4, 1, 29, 6, 8, 9, 10, 12, 16, 32, 64)
"""Sizes to try: extents that follow from different dims differ."""
_SAMPLES = 3
_MOST_TRIED = 300


class UndeterminedError(Exception):
    """An output has a shape that no simple expression over the dims has; the message names it."""


@dataclass(frozen=True, slots=True)
class SampledCases:
    """Cases of a plan at a few sizes, and what the reference returned for each."""

    cases: tuple[Case, ...]
    results: tuple[Mapping[str, np.ndarray[Any, Any]], ...]


def with_outputs(
    plan: Plan, reference: Reference, run: Callable[[Plan, Case], Any], open_dtypes: set[str], seconds: float
) -> Plan:
    """Return the plan with its outputs, and with the dtypes of those in ``open_dtypes`` that it declares without one.

    ``run`` calls the op on a case and returns its results; it may raise anything, and limits its own time. ``seconds``
    limits the calls of the reference.

    Raises
    ------
    ReferenceFailure
        If the reference fails.
    DeadlineError
        If it does not return in time.
    UndeterminedError
        If a shape does not follow from the dims.
    """
    declared = [arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction != "in"]
    if declared and not open_dtypes:
        return plan
    cases = tuple(_sampled(plan))
    if not cases:
        return plan
    with deadline(seconds):
        returned = [_returned(reference, plan, case) for case in cases[: 1 if declared else None]]
    value: Any = None
    # An op that fails or does not return: its check says so.
    with contextlib.suppress(Exception, DeadlineError):
        value = run(plan, cases[0])
    # A list of arrays is several results, or the rows of the one that the op returns.
    whole = isinstance(value, np.ndarray) or len(declared) == 1
    results = tuple(_named(one, declared, whole) for one in returned)
    op_results: Mapping[str, np.ndarray[Any, Any]] = {}
    with contextlib.suppress(Exception):
        op_results = _named(value, declared, whole)
    if declared:
        args = [
            replace(arg, dtype=_dtype(plan.dtype, results[0].get(arg.param), op_results.get(arg.param)))
            if isinstance(arg, TensorArg) and arg.param in open_dtypes
            else arg
            for arg in plan.args
        ]
        return replace(plan, args=tuple(args))
    outputs = []
    for name, first in results[0].items():
        shapes = [result[name].shape for result in results if name in result]
        if len(shapes) < len(results) or len({len(shape) for shape in shapes}) > 1:
            raise UndeterminedError(f"the rank of {name} depends on the sizes")
        extents = [_extent(name, axis, shapes, cases, plan.dims) for axis in range(first.ndim)]
        dtype = _dtype(plan.dtype, first, op_results.get(name))
        outputs.append(TensorArg(name, name, "out", dtype, tuple(extents)))
    return replace(plan, args=(*plan.args, *outputs))


def _returned(reference: Reference, plan: Plan, case: Case) -> Any:
    """Return what the reference returns for a case, whether or not it fits the outputs of the plan."""
    kept: list[Any] = []

    def keeping(*args: Any, **kwargs: Any) -> Any:
        kept.append(reference.function(*args, **kwargs))
        return kept[-1]

    try:
        call(replace(reference, function=keeping), plan, case)
    except ReferenceFailure:
        if not kept:
            raise
    return kept[-1]


def _named(result: Any, declared: Sequence[TensorArg], whole: bool) -> dict[str, np.ndarray[Any, Any]]:
    from gpuemu_lsp.engine.subjects.ops.tensors import is_list_of_arrays

    if isinstance(result, Mapping):
        params = {arg.key: arg.param for arg in declared}
        return {params.get(str(key), str(key)): _array(value) for key, value in result.items()}
    several = isinstance(result, tuple) or (is_list_of_arrays(result) and not whole)
    values = list(result) if several else [result]
    names = [arg.param for arg in declared] if declared else [RESULT]
    if not declared and len(values) > 1:
        names = [f"{RESULT}_{number}" for number in range(len(values))]
    return {name: _array(value) for name, value in zip(names, values, strict=False)}


def _array(value: Any) -> np.ndarray[Any, Any]:
    from gpuemu_lsp.engine.subjects.ops.tensors import to_array

    return np.asarray(to_array(value))


def _dtype(plan: str, expected: Any, actual: Any) -> str:
    kind = "f" if expected is None or expected.dtype.kind == "f" or is_float(expected.dtype.name) else "i"
    found = None if actual is None else actual.dtype.name
    if kind == "f":
        if found in FORMATS and (plan not in FORMATS or FORMATS[found].digits >= FORMATS[plan].digits):
            return str(found)
        return plan if is_float(plan) else "float32"
    if expected.dtype.kind == "b":
        return "bool"
    return str(found) if found is not None and actual.dtype.kind in "iu" else "int64"


def _sampled(plan: Plan) -> Iterator[Case]:
    """Yield cases whose dims have different sizes where they may."""
    found = 0
    for start in range(len(_SIZES)):
        sizes: dict[str, int] = {}
        for number, dim in enumerate(plan.dims):
            options = [*dim.choices] or [size for size in _SIZES if allows(dim, size)] or [dim.minimum or 1]
            unused = [size for size in options if size not in sizes.values()] or options
            sizes[dim.name] = unused[(start + number) % len(unused)]
        try:
            yield rebuild(plan, CaseKey(start, "small/uniform/plain", sizes))
        except PlanError:
            continue
        found += 1
        if found == _SAMPLES or not plan.dims:
            return


def _extent(
    name: str, axis: int, shapes: Sequence[tuple[int, ...]], cases: Sequence[Case], dims: Sequence[DimSpec]
) -> Expression:
    wanted = [shape[axis] for shape in shapes]
    for text in _candidates(dims, wanted):
        expression = parse(text)
        if all(evaluate(expression, case.dims) == extent for case, extent in zip(cases, wanted, strict=True)):
            return expression
    raise UndeterminedError(f"extent {axis} of {name} follows from no dim")


def _candidates(dims: Sequence[DimSpec], wanted: Sequence[int]) -> Iterator[str]:
    names = [dim.name for dim in dims]
    yield from names
    if all(one == other for one, other in pairwise(wanted)):
        yield str(wanted[0])
    for number in (1, 2, 3, 4):
        yield from (f"{name} + {number}" for name in names)
        yield from (f"{name} - {number}" for name in names)
    for number in (2, 3, 4, 8):
        yield from (f"{number} * {name}" for name in names)
        yield from (f"{name} // {number}" for name in names)
        yield from (f"ceil_div({name}, {number})" for name in names)
    for size in range(2, len(names) + 1):
        for chosen in list(combinations(names, size))[:_MOST_TRIED]:
            yield " * ".join(chosen)
            yield " + ".join(chosen)
