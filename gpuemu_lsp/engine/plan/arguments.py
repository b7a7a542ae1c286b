"""Roles of the C parameters: as configured in gpuemu.toml, else inferred from the signature."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.element_types import FLOATS, INTEGERS, ElementType, element_type
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.plan.configured import beyond_type, configured_argument
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.struct_arguments import StructParam, listed, struct_arguments
from gpuemu_lsp.engine.plan.textures.objects import is_object, object_argument
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.project.model import DimSpec, ScalarSpec
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
    structs = {param.name: found for param in decl.params if (found := StructParam.of(context, param)) is not None}
    findings: list[Finding] = []
    for name in spec.args:
        struct = structs.get(re.split(r"[.\[]", name, maxsplit=1)[0])
        if struct is not None:
            findings += struct.unknown(context, name)
        elif name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"It has: {', '.join(p.name for p in decl.params)}."
            message = f"'{decl.name}' has no parameter '{name}'. {hint}"
            findings.append(make("config/unknown-key", message, context.config_place(f"args.{name}"), kernel=spec.name))
    args: list[PlanArg] = []
    missing: list[str] = []
    for param in decl.params:
        if param.name in structs:
            members, lacking, wrong = struct_arguments(context, structs[param.name])
            args += members
            missing += lacking
            findings += wrong
            continue
        given = spec.args.get(param.name)
        if given is None:
            if not param.pointer and param.name in dims and _is_integer(param, aliases):
                given = ScalarSpec(parse(param.name))
            else:
                missing.append(param.name or "(unnamed)")
                continue
        result = configured_argument(context, param, given)
        if isinstance(result, Finding):
            findings.append(result)
        else:
            args.append(result)
    problem = None
    # A misspelt name, or a value for a struct as a whole, is why others are missing.
    named_wrongly = any(finding.rule == "config/unknown-key" for finding in findings) or structs.keys() & spec.args
    if missing and not named_wrongly:
        problem = (
            f"'{decl.name}' also takes {listed(missing)}, which [kernels.args] lacks: "
            'add e.g. x = { in = ["n"] } for a pointer, n = "n" for a scalar.'
        )
    if problem is None:
        findings += _duplicate_keys(args, context)
    return ArgumentRoles(tuple(args), tuple(dims.values()), tuple(findings), problem=problem)


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
    spec, decl = context.spec, context.declaration
    sizes = [param for param in decl.params if not param.pointer and _is_integer(param, context.type_aliases)]
    dims = dict(spec.dims or {})
    for param in sizes:
        dims.setdefault(param.name, DimSpec(param.name))
    args: list[PlanArg] = []
    flat = len(sizes) == 1
    for param in decl.params:
        argument = _argument(context, param, sizes)
        if isinstance(argument, ArgumentRoles):
            return argument
        args.append(argument)
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


def _argument(context: KernelContext, param: Param, sizes: Sequence[Param]) -> PlanArg | ArgumentRoles:
    """Return the argument of a parameter, or roles that say why it has none; ``sizes`` are the integer parameters."""
    spec, known = context.spec, element_type(param.type, context.type_aliases)
    if is_object(param):
        return object_argument(context, param, [parse(size.name) for size in sizes])
    if not param.name or known is None or param.pointer_depth > 1:
        return ArgumentRoles(problem=f"no values can be generated for the type of '{param.name or param.type}'")
    if param.pointer:
        shape = _flat_shape((parse(sizes[0].name),) if len(sizes) == 1 else (), known)
        direction = "in" if param.const else "out"
        return TensorArg(param.name, param.name, direction, known.dtype, shape, lanes=known.lanes)
    if known.lanes != 1:
        return ArgumentRoles(problem=f"'{param.name}' is a {param.type} passed by value")
    if known.dtype in INTEGERS:
        beyond = beyond_type(spec, param, known.dtype, parse(param.name))
        if beyond is not None:
            key, message = beyond
            finding = make("config/bad-value", message, context.config_place(key), kernel=spec.name)
            return ArgumentRoles(findings=(finding,))
        return ScalarArg(param.name, param.name, known.dtype, parse(param.name))
    if known.dtype in (*FLOATS, "bool") and spec.reference is None:
        return ScalarArg(param.name, param.name, known.dtype, True if known.dtype == "bool" else 0.5)
    return ArgumentRoles(problem=f"the signature does not determine the value of '{param.name}'")


def _flat_shape(shape: tuple[Expression, ...], known: ElementType) -> tuple[Expression, ...]:
    """Return the shape in values: ``n`` elements of ``float4`` are 4 n floats."""
    return shape if known.lanes == 1 else tuple(parse(f"{known.lanes} * {length}") for length in shape)


def _is_integer(param: Param, aliases: Mapping[str, str]) -> bool:
    known = element_type(param.type, aliases)
    return known is not None and known.dtype in INTEGERS and known.lanes == 1
