"""Inputs of an operation for the fuzzer: from its entry in gpuemu.toml, a schema, or a built-in schema by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuemu.ops.project_ops import input_names
from gpuemu.verifier.values import laid_out
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.geometry import strides
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed
from gpuemu_lsp.engine.fuzz.strategies import STRATEGIES
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec
from gpuemu_lsp.engine.subjects.ops.plans import plan_op
from gpuemu_lsp.engine.subjects.ops.schema import with_schema

_DIMS: dict[str, dict[str, tuple[int, ...]]] = {
    "matmul": {"M": (1, 2, 7, 31, 128, 257), "K": (1, 3, 16, 127, 256), "N": (1, 2, 15, 64, 255)},
    "attention": {"B": (1, 2, 5), "H": (1, 3, 8), "S": (1, 2, 17, 128, 257), "D": (8, 16, 64, 65)},
}
_INPUTS = {
    "matmul": {"a": ["M", "K"], "b": ["K", "N"]},
    "attention": {name: ["B", "H", "S", "D"] for name in "qkv"},
}
_NAMES = {"uniform": "default", "default": "default"}
_LAYOUTS = frozenset({"contiguous", "strided", "transposed"})


@dataclass(frozen=True, slots=True)
class OpCase:
    """One input of an operation: arrays by name, with real strides. ``seed`` rebuilds it."""

    seed: int
    dtype: str
    layout: str
    dims: Mapping[str, int]
    inputs: Mapping[str, npt.NDArray[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        return next((tuple(array.shape) for array in self.inputs.values()), ())


class NoSchemaError(ValueError):
    """The shapes of an operation's inputs are not known. The message says what to add."""


def draw_case(
    spec: KernelSpec,
    seed: int,
    *,
    schema: Mapping[str, Any] | None = None,
    dtypes: Iterable[str] | None = None,
    distribution: str = "default",
    layouts: Iterable[str] | None = None,
) -> OpCase:
    """Return the case of a seed.

    Raises
    ------
    NoSchemaError
        If the shapes of several inputs are not stated: any guess would give shapes that do not fit.
    ValueError
        If a dtype, distribution or layout is unknown.
    """
    names = tuple(dtypes or spec.dtypes or ("float32", "float16"))
    strategy = _NAMES.get(distribution, distribution)
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown value_distribution '{distribution}'; known: uniform, {', '.join(STRATEGIES)}")
    chosen = frozenset(layout.lower() for layout in (layouts or ("contiguous",)))
    if not chosen <= _LAYOUTS:
        raise ValueError(f"unknown layout in {sorted(chosen)}; known: {', '.join(sorted(_LAYOUTS))}")
    dtype = Rng(derive_seed(seed, "dtype")).choice(names)
    plan = _with_layouts(_plan(spec, dtype, schema), chosen)
    case = rebuild(plan, CaseKey(seed, strategy))
    inputs, layout = {}, "contiguous"
    for arg in plan.args:
        if isinstance(arg, TensorArg) and arg.direction != "out":
            array = case.tensors[arg.param]
            steps = strides(case.extra, arg.param, tuple(array.shape))
            inputs[arg.key] = laid_out(array, tuple(step * array.itemsize for step in steps))
            if f"stride:{arg.param}" in case.extra:
                layout = "strided" if list(steps) == sorted(steps, reverse=True) else "transposed"
    return OpCase(seed, dtype, layout, dict(case.dims), inputs)


def _plan(spec: KernelSpec, dtype: str, schema: Mapping[str, Any] | None) -> Plan:
    place = Place(spec.source, Range.of(0, 0, 0, 1))
    if schema is not None:
        dims = {one["name"]: tuple(one.get("candidates") or (1,)) for one in schema.get("dims", ())}
        return _schema_plan(spec.name, dtype, dims, {one["name"]: one["dims"] for one in schema["inputs"]}, place)
    assert spec.op is not None
    spec = with_schema(replace(spec, dtypes=(dtype,)))
    if spec.args is not None or spec.op is None:
        return plan_op(spec, place).plans[0]
    names = input_names(spec)
    for name in _DIMS:
        if name in spec.name.lower() and len(names) in (0, len(_INPUTS[name])):
            keys = names or tuple(_INPUTS[name])
            inputs = dict(zip(keys, _INPUTS[name].values(), strict=True))
            return _schema_plan(spec.name, dtype, _DIMS[name], inputs, place)
    if len(names) > 1:
        raise NoSchemaError(
            f"the shapes of {', '.join(names)} are not stated: add [ops.dims] and [ops.args] to "
            f"'{spec.name}' in gpuemu.toml, or pass op_schema"
        )
    return plan_op(replace(spec, op=replace(spec.op, input_names=names)), place).plans[0]


def _schema_plan(
    name: str, dtype: str, dims: Mapping[str, tuple[int, ...]], inputs: Mapping[str, list[str]], place: Place
) -> Plan:
    specs = tuple(DimSpec(key, min(sizes), max(sizes), choices=tuple(sizes)) for key, sizes in dims.items())
    for key, axes in inputs.items():
        if unknown := [axis for axis in axes if axis not in dims]:
            raise NoSchemaError(f"the schema of '{name}' has no dim {', '.join(unknown)}, which '{key}' needs")
    args = tuple(TensorArg(key, key, "in", dtype, tuple(parse(axis) for axis in axes)) for key, axes in inputs.items())
    one = (parse(1),)
    return Plan(name, name, dtype, args, specs, one, one, parse(0), place)


def _with_layouts(plan: Plan, layouts: frozenset[str]) -> Plan:
    args = tuple(
        replace(arg, strided="strided" in layouts, transposed="transposed" in layouts)
        if isinstance(arg, TensorArg) and arg.direction != "out"
        else arg
        for arg in plan.args
    )
    return replace(plan, args=args)


def cropped(
    inputs: Mapping[str, npt.NDArray[Any]], extent: int, smaller: int, *, last: bool = False
) -> dict[str, npt.NDArray[Any]]:
    """Return the first, or ``last``, elements along every axis of ``extent``: axes of equal size are one dim."""
    kept = slice(extent - smaller, None) if last else slice(smaller)
    found = {}
    for name, array in inputs.items():
        index = tuple(kept if size == extent else slice(None) for size in array.shape)
        found[name] = np.ascontiguousarray(array[index])
    return found
