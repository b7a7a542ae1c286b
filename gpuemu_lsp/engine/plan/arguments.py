"""Every C parameter's role: what the toml says of it, else what the signature allows to conclude."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.plan.model import PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.types import FLOATS, INTEGERS, ElementType, element_type
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec, PointerSpec, ScalarSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import KernelDecl, Param


@dataclass(frozen=True, slots=True)
class Roles:
    """The arguments in C order and the dims they use. ``problem`` says why they could not all be settled."""

    args: tuple[PlanArg, ...] = ()
    dims: tuple[DimSpec, ...] = ()
    findings: tuple[Finding, ...] = ()
    inferred: bool = False
    problem: str | None = None
    flat: bool = False
    """All tensors have the one size parameter's length: the elementwise reading."""


def settle(spec: KernelSpec, decl: KernelDecl, aliases: dict[str, str]) -> Roles:
    """Give every parameter of ``decl`` its role, for one instance.

    ``aliases`` says what names in the signature stand for: constants, template arguments, types.
    """
    if spec.args is None:
        return _infer(spec, decl, aliases)
    return _configured(spec, decl, aliases)


def _configured(spec: KernelSpec, decl: KernelDecl, aliases: dict[str, str]) -> Roles:
    assert spec.args is not None
    dims = dict(spec.dims or {})
    known = {param.name for param in decl.params}
    findings: list[Finding] = []
    for name in spec.args:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"It has: {', '.join(p.name for p in decl.params)}."
            message = f"'{decl.name}' has no parameter '{name}'. {hint}"
            findings.append(make("config/unknown-key", message, _place(spec, f"args.{name}"), kernel=spec.name))
    args: list[PlanArg] = []
    missing: list[str] = []
    for param in decl.params:
        given = spec.args.get(param.name)
        if given is None:
            if not param.pointer and param.name in dims and _is_integer(param, aliases):
                given = ScalarSpec(parse(param.name))
            else:
                missing.append(param.name or "(unnamed)")
                continue
        result = _argument(spec, param, given, aliases)
        if isinstance(result, Finding):
            findings.append(result)
        else:
            args.append(result)
    problem = None
    if missing:
        problem = (
            f"'{decl.name}' also takes {', '.join(missing)}, which [kernels.args] does not mention: "
            'say e.g. x = { in = ["n"] } for a pointer, n = "n" for a scalar.'
        )
    if problem is None:
        findings += _twice_named(args, spec)
    return Roles(tuple(args), tuple(dims.values()), tuple(findings), problem=problem)


def _argument(
    spec: KernelSpec, param: Param, given: PointerSpec | ScalarSpec, aliases: dict[str, str]
) -> PlanArg | Finding:
    place = _place(spec, f"args.{param.name}")
    known = element_type(param.type, aliases)
    if isinstance(given, PointerSpec):
        if not param.pointer:
            message = f"'{param.name}' is a {param.type}, passed by value: give it a number or an expression."
            return make("config/bad-value", message, place, kernel=spec.name)
        dtype = given.dtype or (known.dtype if known else None)
        if dtype is None or param.pointer_depth > 1:
            message = (
                f"The element type '{param.type}' of '{param.name}' has no dtype we know. "
                f'Say which values it holds: {param.name} = {{ {given.direction} = [...], dtype = "float32" }}'
            )
            return make("config/bad-value", message, place, kernel=spec.name)
        if known is not None and given.dtype not in (None, known.dtype) and known.dtype not in ("int8", "uint8"):
            message = f"'{param.name}' points to {known.dtype}, not to {given.dtype} as gpuemu.toml says."
            return make("numeric/dtype-mismatch", message, place, kernel=spec.name)
        if param.const and given.direction != "in":
            message = f"'{param.name}' points to const, so the kernel cannot write it: it must be `in`."
            return make("config/bad-value", message, place, kernel=spec.name)
        return TensorArg(
            param.name,
            given.key or param.name,
            given.direction,
            dtype,
            given.shape,
            given.range,
            given.align,
            given.strided,
            given.may_alias,
        )
    if param.pointer:
        message = f"'{param.name}' is a pointer: say its direction and shape, e.g. {param.name} = {{ in = [\"n\"] }}"
        return make("config/bad-value", message, place, kernel=spec.name)
    if known is None or known.lanes != 1:
        message = f"'{param.name}' is a {param.type} by value; only numbers can be passed so far."
        return make("config/bad-value", message, place, kernel=spec.name)
    if known.dtype in INTEGERS and isinstance(given.value, float) and not given.value.is_integer():
        message = f"'{param.name}' is a {param.type}: {given.value} is not a whole number."
        return make("config/bad-value", message, place, kernel=spec.name)
    return ScalarArg(param.name, given.key or param.name, known.dtype, given.value)


def _twice_named(args: list[PlanArg], spec: KernelSpec) -> list[Finding]:
    seen: dict[str, str] = {}
    findings = []
    for arg in args:
        if arg.key in seen:
            both = f"'{arg.param}' and '{seen[arg.key]}'"
            message = f"{both} would both be '{arg.key}' for the reference: rename one with `as`."
            findings.append(make("config/bad-value", message, _place(spec, f"args.{arg.param}"), kernel=spec.name))
        seen.setdefault(arg.key, arg.param)
    return findings


def _infer(spec: KernelSpec, decl: KernelDecl, aliases: dict[str, str]) -> Roles:
    """Read the roles off the signature: const pointers in, others out, integers are sizes.

    With exactly one integer every tensor has that many elements. With more, shapes are left empty for the probe, which
    learns them by running the kernel on regular sizes; with a reference the user must say them.
    """
    sizes = [param for param in decl.params if not param.pointer and _is_integer(param, aliases)]
    dims = dict(spec.dims or {})
    for param in sizes:
        dims.setdefault(param.name, DimSpec(param.name))
    args: list[PlanArg] = []
    flat = len(sizes) == 1
    shape: tuple[Expression, ...] = (parse(sizes[0].name),) if flat else ()
    for param in decl.params:
        known = element_type(param.type, aliases)
        if not param.name or known is None or param.pointer_depth > 1:
            return Roles(problem=f"the type of parameter '{param.name or param.type}' cannot be filled automatically")
        if param.pointer:
            direction = "in" if param.const else "out"
            args.append(
                TensorArg(param.name, param.name, direction, known.dtype, _flat_shape(shape, known), lanes=known.lanes)
            )
        elif known.lanes != 1:
            return Roles(problem=f"'{param.name}' is a {param.type} by value")
        elif known.dtype in INTEGERS:
            args.append(ScalarArg(param.name, param.name, known.dtype, parse(param.name)))
        elif known.dtype in FLOATS and spec.reference is None:
            args.append(ScalarArg(param.name, param.name, known.dtype, 0.5))
        elif known.dtype == "bool" and spec.reference is None:
            args.append(ScalarArg(param.name, param.name, known.dtype, True))
        else:
            return Roles(problem=f"the value of '{param.name}' cannot be told from the signature")
    if not any(isinstance(arg, TensorArg) for arg in args):
        return Roles(problem="the kernel takes no pointer, so there is nothing to look at")
    if not sizes:
        return Roles(problem="no integer parameter says how large the buffers are")
    return Roles(tuple(args), tuple(dims.values()), inferred=True, flat=flat)


def _flat_shape(shape: tuple[Expression, ...], known: ElementType) -> tuple[Expression, ...]:
    """Return the shape in scalars: ``n`` of ``float4`` are 4 n floats."""
    return shape if known.lanes == 1 else tuple(parse(f"{known.lanes} * {length}") for length in shape)


def _is_integer(param: Param, aliases: dict[str, str]) -> bool:
    known = element_type(param.type, aliases)
    return known is not None and known.dtype in INTEGERS and known.lanes == 1


def _place(spec: KernelSpec, key: str) -> Place:
    while key and key not in spec.places:
        key = key.rpartition(".")[0]
    return spec.places[key]
