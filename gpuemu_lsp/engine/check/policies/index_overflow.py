"""Index overflows at the largest sizes that gpuemu.toml declares.

No case is large enough to overflow a 32-bit index, so no launch shows it. A few threads of the last blocks are followed
through their integer arithmetic alone, with the largest declared sizes that fit a GPU's memory. Without declared sizes
nothing is claimed: the kernel may only ever see small ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from gpuemu_lsp.engine.check.finding_placer import FindingFactory
from gpuemu_lsp.engine.execution import Dim3, Request
from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.fuzz.dtypes import is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.geometry import CaseGeometry, ImpossibleError, evaluate_plan
from gpuemu_lsp.engine.fuzz.model import LaunchHints
from gpuemu_lsp.engine.fuzz.size_classes import DimSizes, dim_sizes
from gpuemu_lsp.engine.plan.facts import PlanOrigin
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate, names
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.index_overflow import IndexOverflow, overflow_in_launch
from gpuemu_lsp.engine.ptx.model import Function
from gpuemu_lsp.engine.subjects.model import CaseCode

_GPU_BYTES = 80 << 30
"""Memory that the tensors of a launch must fit in: larger launches do not occur."""
_INT_RANGE = 1 << 31
"""Elements of a tensor from which on an ``int`` cannot index it."""
_BUFFER_DISTANCE = 1 << 44
"""Distance of the addresses that the buffers are given, larger than any offset."""


def index_overflows(
    plan: Plan, hints: LaunchHints, launch: Request, findings: FindingFactory, code: CaseCode | None = None
) -> Iterator[Finding]:
    """Yield an error if an index overflows at the largest declared sizes; undeclared sizes count as small.

    ``code`` is that of one case, where not all have that of ``launch``: it has to be the code of the largest sizes too.
    """
    if plan.inferred or plan.facts.origin is not PlanOrigin.CONFIGURATION:
        return
    args, block = _passed_arguments(plan, code), None if code is None else code.block
    if args is None:
        return
    largest = largest_launch(plan, dim_sizes(plan, hints))
    if largest is None:
        return
    dims, geometry = largest
    geometry = replace(geometry, block=block or geometry.block)
    artifact, entry = (launch.artifact, launch.entry) if code is None else (code.artifact, code.entry)
    function = parse(artifact.ptx).functions.get(entry)
    # The parameters of a struct are not followed; memory that a compiler adds comes last.
    if function is None or (len(function.params) != len(args) if code is None else len(function.params) < len(args)):
        return
    found = overflow_in_launch(function, _parameters(args, function, geometry), geometry.grid, geometry.block)
    if found is not None:
        advice = "`(size_t)row * cols`" if code is None else "`row.to(tl.int64) * cols`"
        yield _finding(findings, *found, dims, advice)


def _passed_arguments(plan: Plan, code: CaseCode | None) -> tuple[PlanArg, ...] | None:
    """Return the arguments of the code by parameter; None if sizes decide about what it is compiled with."""
    if code is None:
        return plan.args
    if code.parameters is None or plan.triton is None:
        return None
    by_name = {arg.param: arg for arg in plan.args}
    left_out = [arg for name, arg in by_name.items() if name not in code.parameters]
    compiled = [arg.value for arg in left_out if isinstance(arg, ScalarArg)]
    compiled += [expression for _, expression in plan.triton.options]
    varied = plan.triton.choices or plan.triton.configuration is not None
    varied = varied or any(names(value) for value in compiled if isinstance(value, Expression))
    if varied or not by_name.keys() >= {*code.parameters}:
        return None
    return tuple(by_name[name] for name in code.parameters)


def largest_launch(plan: Plan, sizes: tuple[DimSizes, ...]) -> tuple[Mapping[str, int], CaseGeometry] | None:
    """Return the largest declared sizes that fit a GPU and their geometry; None if an ``int`` can index every tensor.

    Dims without a declared maximum have their minimum.
    """
    dims = {one.spec.name: one.nearest(one.high if _declared(one) else one.low) for one in sizes}
    while True:
        try:
            geometry = evaluate_plan(plan, dims, None)
            if max((math.prod(shape) for shape in geometry.shapes.values()), default=0) < _INT_RANGE:
                return None
            if _bytes(plan, geometry) <= _GPU_BYTES and _fits(plan, geometry):
                return dims, geometry
        except (ImpossibleError, ExpressionError):
            pass
        # The largest dim is reduced first, so that the shape stays close to the declared one.
        smaller = {one.spec.name: one.smaller(dims[one.spec.name]) for one in sizes}
        free = [name for name, size in smaller.items() if size < dims[name]]
        if not free:
            return None
        name = max(free, key=lambda name: dims[name])
        dims = {**dims, name: smaller[name]}


def _declared(size: DimSizes) -> bool:
    return size.spec.maximum is not None or bool(size.spec.choices)


def _bytes(plan: Plan, geometry: CaseGeometry) -> int:
    tensors = (arg for arg in plan.args if isinstance(arg, TensorArg))
    return sum(math.prod(geometry.shapes[arg.param]) * numpy_dtype(arg.dtype).itemsize for arg in tensors)


def _fits(plan: Plan, geometry: CaseGeometry) -> bool:
    """Return whether every scalar argument fits the type of its parameter."""
    return all(_scalar(arg, geometry) is not None for arg in plan.args if _is_integer(arg))


def _is_integer(arg: object) -> bool:
    return isinstance(arg, ScalarArg) and arg.dtype != "bool" and not is_float(arg.dtype)


def _scalar(arg: object, geometry: CaseGeometry) -> int | None:
    if not isinstance(arg, ScalarArg) or not _is_integer(arg):
        return None
    value = evaluate(arg.value, geometry.env) if isinstance(arg.value, Expression) else int(arg.value)
    bits = 8 * numpy_dtype(arg.dtype).itemsize
    low, high = (0, 1 << bits) if arg.dtype.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
    return value if low <= value < high else None


def _parameters(args: Sequence[PlanArg], function: Function, geometry: CaseGeometry) -> dict[str, int]:
    params: dict[str, int] = {}
    for number, (param, arg) in enumerate(zip_longest(function.params, args), 1):
        value = number * _BUFFER_DISTANCE if not isinstance(arg, ScalarArg) else _scalar(arg, geometry)
        if value is not None:
            params[param.name] = value
    return params


def _finding(
    findings: FindingFactory, overflow: IndexOverflow, block: Dim3, thread: Dim3, dims: Mapping[str, int], advice: str
) -> Finding:
    # At the access, not the multiplication: a hoisted product has the line it was hoisted to.
    place, related = findings.source_map.place(overflow.access.location)
    sizes = ", ".join(f"{name} = {size}" for name, size in dims.items())
    message = (
        f"This index overflows 32 bits: with {sizes} it is {overflow.index}, and the wrapped value is used as an "
        f"address. Widen a factor first, as in {advice}."
    )
    data: dict[str, Json] = {
        "index": overflow.index,
        "thread": list(thread),
        "block": list(block),
        "instruction": overflow.origin.name,
    }
    found = findings.finding("memory/index-overflow", message, place, data=data)
    return replace(found, dims=dict(dims), related=related, states_sizes=True)
