"""Roles of the C parameters: as configured in gpuemu.toml, else inferred from the signature."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.types import FLOATS, INTEGERS, ElementType, element_type, integer_limits
from gpuemu_lsp.engine.project.expressions import Expression, constant, parse
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec, PointerSpec, ScalarSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import Param


@dataclass(frozen=True, slots=True)
class ArgumentRoles:
    """The arguments in C order and the dims they use. ``problem`` is the reason where a parameter has no role."""

    args: tuple[PlanArg, ...] = ()
    dims: tuple[DimSpec, ...] = ()
    findings: tuple[Finding, ...] = ()
    inferred: bool = False
    problem: str | None = None
    flat: bool = False
    """The signature has one size parameter, and all tensors have that many elements (an elementwise kernel)."""


def assign_roles(context: KernelContext) -> ArgumentRoles:
    """Return the role of every parameter of one instance."""
    return _inferred(context) if context.spec.args is None else _configured(context)


def _configured(context: KernelContext) -> ArgumentRoles:
    spec, decl, aliases = context.spec, context.declaration, context.type_aliases
    assert spec.args is not None
    dims = dict(spec.dims or {})
    known = {param.name for param in decl.params}
    findings: list[Finding] = []
    for name in spec.args:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"It has: {', '.join(p.name for p in decl.params)}."
            message = f"'{decl.name}' has no parameter '{name}'. {hint}"
            findings.append(make("config/unknown-key", message, context.config_place(f"args.{name}"), kernel=spec.name))
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
        result = _argument(context, param, given)
        if isinstance(result, Finding):
            findings.append(result)
        else:
            args.append(result)
    problem = None
    if missing:
        problem = (
            f"'{decl.name}' also takes {', '.join(missing)}, which [kernels.args] lacks: "
            'add e.g. x = { in = ["n"] } for a pointer, n = "n" for a scalar.'
        )
    if problem is None:
        findings += _duplicate_keys(args, context)
    return ArgumentRoles(tuple(args), tuple(dims.values()), tuple(findings), problem=problem)


def _argument(context: KernelContext, param: Param, given: PointerSpec | ScalarSpec) -> PlanArg | Finding:
    """Return a configured argument, or a finding where it contradicts the signature."""
    spec, place = context.spec, context.config_place(f"args.{param.name}")
    known = element_type(param.type, context.type_aliases)
    if isinstance(given, PointerSpec):
        if not param.pointer:
            message = f"'{param.name}' is a {param.type} passed by value; its value must be a number or an expression."
            return make("config/bad-value", message, place, kernel=spec.name)
        dtype = given.dtype or (known.dtype if known else None)
        if dtype is None or param.pointer_depth > 1:
            message = (
                f"The element type '{param.type}' of '{param.name}' has no known dtype. "
                f'Add one: {param.name} = {{ {given.direction} = [...], dtype = "float32" }}'
            )
            return make("config/bad-value", message, place, kernel=spec.name)
        if known is not None and given.dtype not in (None, known.dtype) and known.dtype not in ("int8", "uint8"):
            message = f"'{param.name}' points to {known.dtype}, but gpuemu.toml has {given.dtype}."
            return make("numeric/dtype-mismatch", message, place, kernel=spec.name)
        if param.const and given.direction != "in":
            message = f"'{param.name}' points to const, so the kernel cannot write to it; it must be `in`."
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
            compare=given.compare,
        )
    if param.pointer:
        message = f"'{param.name}' is a pointer; give its direction and shape, e.g. {param.name} = {{ in = [\"n\"] }}"
        return make("config/bad-value", message, place, kernel=spec.name)
    if known is None or known.lanes != 1:
        message = f"'{param.name}' is a {param.type} passed by value; only numbers are supported."
        return make("config/bad-value", message, place, kernel=spec.name)
    if known.dtype in INTEGERS and isinstance(given.value, float) and not given.value.is_integer():
        message = f"'{param.name}' is a {param.type}: {given.value} is not a whole number."
        return make("config/bad-value", message, place, kernel=spec.name)
    beyond = _beyond_type(spec, param, known.dtype, given.value)
    if beyond is not None:
        key, message = beyond
        return make("config/bad-value", message, context.config_place(key), kernel=spec.name)
    return ScalarArg(param.name, given.key or param.name, known.dtype, given.value)


def _beyond_type(
    spec: KernelSpec, param: Param, dtype: str, value: Expression | float | bool
) -> tuple[str, str] | None:
    """Return the key and the message of a value that no argument of an integer type can have, None if all fit.

    A parameter that is passed a size as it is must hold every size that `[kernels.dims]` declares.
    """
    if dtype not in INTEGERS or isinstance(value, bool):
        return None
    lowest, highest = integer_limits(dtype)
    number = constant(value) if isinstance(value, Expression) else value
    if number is not None:
        fits = lowest <= number <= highest
        return None if fits else (f"args.{param.name}", f"{number} does not fit `{param.type} {param.name}`.")
    dim = (spec.dims or {}).get(str(value))
    if dim is None or dim.maximum is None or dim.maximum <= highest:
        return None
    message = f"`max` = {dim.maximum} of `{dim.name}` does not fit `{param.type} {param.name}`, which holds {highest}."
    return f"dims.{dim.name}.max", message


def _duplicate_keys(args: list[PlanArg], context: KernelContext) -> list[Finding]:
    """Return a finding for each argument whose name in the reference's inputs is already used."""
    seen: dict[str, str] = {}
    findings = []
    for arg in args:
        if arg.key in seen:
            both = f"'{arg.param}' and '{seen[arg.key]}'"
            message = f"{both} are both '{arg.key}' in the reference's inputs; rename one with `as`."
            place = context.config_place(f"args.{arg.param}")
            findings.append(make("config/bad-value", message, place, kernel=context.spec.name))
        seen.setdefault(arg.key, arg.param)
    return findings


def _inferred(context: KernelContext) -> ArgumentRoles:
    """Infer the roles from the signature: pointers to const are inputs, other pointers outputs, integers sizes.

    With exactly one integer every tensor is assumed to have that many elements; with more, the shapes stay empty. The
    probe then finds the shapes by running the kernel.
    """
    spec, decl, aliases = context.spec, context.declaration, context.type_aliases
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
            return ArgumentRoles(problem=f"no values can be generated for the type of '{param.name or param.type}'")
        if param.pointer:
            direction = "in" if param.const else "out"
            args.append(
                TensorArg(param.name, param.name, direction, known.dtype, _flat_shape(shape, known), lanes=known.lanes)
            )
        elif known.lanes != 1:
            return ArgumentRoles(problem=f"'{param.name}' is a {param.type} passed by value")
        elif known.dtype in INTEGERS:
            beyond = _beyond_type(spec, param, known.dtype, parse(param.name))
            if beyond is not None:
                key, message = beyond
                finding = make("config/bad-value", message, context.config_place(key), kernel=spec.name)
                return ArgumentRoles(findings=(finding,))
            args.append(ScalarArg(param.name, param.name, known.dtype, parse(param.name)))
        elif known.dtype in FLOATS and spec.reference is None:
            args.append(ScalarArg(param.name, param.name, known.dtype, 0.5))
        elif known.dtype == "bool" and spec.reference is None:
            args.append(ScalarArg(param.name, param.name, known.dtype, True))
        else:
            return ArgumentRoles(problem=f"the signature does not determine the value of '{param.name}'")
    if not any(isinstance(arg, TensorArg) for arg in args):
        if not context.registered:
            return ArgumentRoles(problem="the kernel has no pointer parameter, so there is no output to check")
        # Its accesses to __device__ variables, barriers and asserts are checked. Sizes that gpuemu.toml declares are
        # not guesses; other values are.
        guessed = any(param.name not in (spec.dims or {}) for param in decl.params)
        return ArgumentRoles(tuple(args), tuple(dims.values()), inferred=guessed)
    if not sizes:
        return ArgumentRoles(problem="no integer parameter determines the size of the buffers")
    return ArgumentRoles(tuple(args), tuple(dims.values()), inferred=True, flat=flat)


def _flat_shape(shape: tuple[Expression, ...], known: ElementType) -> tuple[Expression, ...]:
    """Return the shape in values: ``n`` elements of ``float4`` are 4 n floats."""
    return shape if known.lanes == 1 else tuple(parse(f"{known.lanes} * {length}") for length in shape)


def _is_integer(param: Param, aliases: Mapping[str, str]) -> bool:
    known = element_type(param.type, aliases)
    return known is not None and known.dtype in INTEGERS and known.lanes == 1
