"""Plans of an op: one per dtype, from its entry in gpuemu.toml."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec, OpSpec, PointerSpec, ScalarSpec
from gpuemu_lsp.engine.rules import make

DEFAULT_DTYPE = "float32"
_DEFAULT_DIMS = (
    DimSpec("batch", 1, 8, choices=(1, 2, 4, 8)),
    DimSpec("seq", 1, 512, include=(64, 65, 512)),
    DimSpec("hidden", 1, 1024, include=(512, 513, 1024)),
)
"""Sizes of an op without ``dims`` and ``args``: a tensor of rank 3, as in a transformer."""


@dataclass(frozen=True, slots=True)
class OpPlans:
    """The plans of an op. ``open_dtypes`` are the outputs that are declared without a dtype."""

    plans: tuple[Plan, ...]
    findings: tuple[Finding, ...] = ()
    open_dtypes: frozenset[str] = frozenset()


def plan_op(spec: KernelSpec, place: Place) -> OpPlans:
    """Return a plan for each dtype; ``place`` is where its findings are."""
    assert spec.op is not None
    plans, findings = list[Plan](), list[Finding]()
    for dtype in spec.dtypes or (DEFAULT_DTYPE,):
        dims, args = _arguments(spec, spec.op, dtype)
        plans.append(
            Plan(
                kernel=spec.name,
                entry=spec.name,
                dtype=dtype,
                args=args,
                dims=dims,
                grid=(parse(1),),
                block=(parse(1),),
                shared=parse(0),
                place=place,
                kwargs=spec.op.kwargs,
            )
        )
    if spec.args is None:
        names = ", ".join(arg.param for arg in plans[0].args)
        shape = ", ".join(dim.name for dim in plans[0].dims)
        message = (
            f"'{spec.name}' has no `[ops.args]`: {names} of the shape [{shape}] is assumed. State its sizes in "
            '`[ops.dims]` and its arguments in `[ops.args]`, such as x = { in = ["rows", "cols"] }.'
        )
        findings.append(make("config/launch-inferred", message, spec.places.get("name", place), kernel=spec.name))
    pointers = {name: arg for name, arg in (spec.args or {}).items() if isinstance(arg, PointerSpec)}
    unstated = (name for name, arg in pointers.items() if arg.direction == "out" and arg.dtype is None)
    return OpPlans(tuple(plans), tuple(findings), frozenset(unstated))


def _arguments(spec: KernelSpec, op: OpSpec, dtype: str) -> tuple[tuple[DimSpec, ...], tuple[PlanArg, ...]]:
    dims = tuple((spec.dims or {}).values())
    layouts = layouts_of(op)
    if spec.args is None:
        dims = dims or _DEFAULT_DIMS
        shape = tuple(parse(dim.name) for dim in dims)
        names = op.input_names or ("input",)
        return dims, tuple(_tensor(name, PointerSpec("in", shape), dtype, layouts) for name in names)
    args: list[PlanArg] = []
    for name, given in spec.args.items():
        args.append(_tensor(name, given, dtype, layouts) if isinstance(given, PointerSpec) else _scalar(name, given))
    return dims, tuple(args)


def layouts_of(op: OpSpec) -> frozenset[str]:
    """Return the memory layouts to try."""
    if op.layouts is not None:
        return frozenset(op.layouts)
    # A function of arrays or tensors must respect their strides. A runner of kernels takes whole arrays.
    return frozenset({"contiguous", "strided", "transposed"} if op.target is not None else {"contiguous"})


def _tensor(name: str, given: PointerSpec, dtype: str, layouts: frozenset[str]) -> TensorArg:
    read = given.direction != "out"
    return TensorArg(
        name,
        given.key or name,
        given.direction,
        given.dtype or dtype,
        given.shape,
        given.range,
        strided=given.strided or (read and "strided" in layouts),
        transposed=read and "transposed" in layouts,
        may_alias=given.may_alias,
        compare=given.compare,
    )


def _scalar(name: str, given: ScalarSpec) -> ScalarArg:
    value, key = given.value, given.key or name
    if isinstance(value, Expression):
        return ScalarArg(name, key, "int64", value)
    return ScalarArg(name, key, "bool" if isinstance(value, bool) else "float64", value)
