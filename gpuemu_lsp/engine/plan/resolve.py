"""Resolution of a kernel: one plan per dtype, or findings that say what to add to gpuemu.toml."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.findings import Finding, Place, Severity
from gpuemu_lsp.engine.plan.arguments import ArgumentRoles, assign_roles
from gpuemu_lsp.engine.plan.candidates import computed_size, grid_tiles
from gpuemu_lsp.engine.plan.computed_sizes import divisors_of_computed_sizes, passed_sizes, with_computed_sizes
from gpuemu_lsp.engine.plan.context import FactsOf, KernelContext, not_compiled
from gpuemu_lsp.engine.plan.entry import KernelInstance, choose_kernel, instances, overloads
from gpuemu_lsp.engine.plan.facts import (
    FITTED,
    READ,
    BufferFact,
    Claim,
    Facts,
    Path,
    PlanOrigin,
    assumed,
)
from gpuemu_lsp.engine.plan.host.passed_types import wrong_arguments
from gpuemu_lsp.engine.plan.host.plans import HostPlan, host_plan, variant_plan
from gpuemu_lsp.engine.plan.host.rejected_launches import rejected_launches
from gpuemu_lsp.engine.plan.known_contents import with_known_contents
from gpuemu_lsp.engine.plan.launch import divisible, resolve_launch
from gpuemu_lsp.engine.plan.mangled import parameter_types
from gpuemu_lsp.engine.plan.model import Plan, PlanResult, ResolvedLaunch, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.size_limits import power_of_two_sizes, size_divisors, within
from gpuemu_lsp.engine.plan.skeleton import template
from gpuemu_lsp.engine.plan.textures.objects import is_object
from gpuemu_lsp.engine.project.expressions import constant, names, parse
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import KernelDecl, Param, SourceFile

_NO_DTYPE = "float32"
"""The dtype under which a kernel without parameters is checked: the default of ``[validation]``."""
_LAUNCH_HINT = "config/launch-inferred"
_INTEGER = re.compile(r"\b\d+\b")
_MOST_INDEPENDENT = 2
"""Sizes, one of them unknown, that are likely not to depend on each other."""
_POWERS_OF_TWO = tuple(1 << power for power in range(1, 11))


def resolve(
    spec: KernelSpec,
    source: SourceFile,
    entries: Mapping[str, str] | None = None,
    facts_of: FactsOf = not_compiled,
) -> PlanResult:
    """Resolve a registered kernel, or one found in a file (then ``spec`` is from :func:`unregistered`).

    ``entries`` maps name expressions to mangled names once the file has been compiled; they have the types behind
    typedefs and macros in the signature. ``facts_of`` then returns what their code shows.
    """
    declaration, findings = choose_kernel(spec, source)
    if declaration is None:
        return PlanResult((), (), findings)
    context = KernelContext(spec, declaration, source)
    chosen: list[tuple[KernelContext, KernelInstance]] = []
    collected: list[Finding] = []
    for overload in overloads(context):
        own = replace(context, declaration=overload)
        own_instances, hints = instances(own)
        collected += hints if context.registered else map(_as_hint, hints)
        chosen += ((own, instance) for instance in own_instances)
    plans: list[Plan] = []
    collected += wrong_arguments(context)
    for own, instance in chosen:
        mangled = (entries or {}).get(instance.expression, "")
        compiled = replace(
            own,
            bindings=instance.bindings,
            compiled_types=_compiled_types(own, mangled),
            mangled=mangled,
            facts_of=facts_of,
        )
        plan, found = _plan(compiled, instance)
        collected.extend(one for one in (*found, *rejected_launches(compiled)) if one not in collected)
        if plan is not None:
            plans.append(plan)
    has_buffers = any(isinstance(arg, TensorArg) for plan in plans for arg in plan.args)
    if spec.dtypes and has_buffers and not declaration.template:
        collected.extend(_unsupported_dtypes(context, plans))
    if any(plan.launched for plan in plans):
        # An instance that the program does not launch may lack a launch.
        collected = [replace(one, rule=_LAUNCH_HINT) if one.rule == "engine/not-executed" else one for one in collected]
    guessed = any(instance.guessed for _, instance in chosen)
    return PlanResult(tuple(plans), tuple(instance.expression for _, instance in chosen), tuple(collected), guessed)


def _as_hint(finding: Finding) -> Finding:
    """Return the finding as a hint: in an unregistered file, an uninstantiated template is not an error."""
    if finding.rule != "config/ambiguous-signature":
        return finding
    return make("engine/not-executed", finding.message, finding.place, kernel=finding.kernel, severity=Severity.HINT)


def unregistered(source: SourceFile, decl: KernelDecl, include_dirs: tuple[str, ...] = ()) -> KernelSpec:
    """Return the spec of a kernel that gpuemu.toml does not register."""
    return KernelSpec(
        name=decl.name,
        source=source.path,
        reference=None,
        entry=decl.qualified_name,
        include_dirs=include_dirs,
        places={"": Place(source.path, decl.name_range)},
    )


def _plan(context: KernelContext, instance: KernelInstance) -> tuple[Plan | None, tuple[Finding, ...]]:
    plan, findings = _own_plan(context, instance)
    variant = variant_plan(context) if plan is None and not context.registered else None
    return (plan, findings) if variant is None else _plan_of_launch(context, instance, variant)


def _own_plan(context: KernelContext, instance: KernelInstance) -> tuple[Plan | None, tuple[Finding, ...]]:
    """Return the plan of a launch of the kernel itself, or one that follows from its entry or signature."""
    texture = next((param for param in context.declaration.params if is_object(param)), None)
    if texture is not None and context.registered:
        return None, (_texture_parameter(context, texture),)
    host = None if context.registered else host_plan(context)
    if host is None:
        return _plan_of_signature(context, instance, None)
    launched, findings = _plan_of_launch(context, instance, host)
    if not host.open:
        return launched, findings
    if host.rounded_down or _shows_outputs(launched):
        # The sizes that a guess from the signature would keep to are those without the mistake.
        return launched, ()
    return _plan_of_signature(context, instance, launched)


def _plan_of_signature(
    context: KernelContext, instance: KernelInstance, launched: Plan | None
) -> tuple[Plan | None, tuple[Finding, ...]]:
    """Return the plan that follows from the entry of a kernel or its signature.

    ``launched`` is that of a launch in the program which leaves lengths of buffers open: it is taken where the
    signature says less.
    """
    roles = assign_roles(context)
    if launched is not None and (roles.problem is not None or roles.findings):
        return launched, ()
    if roles.problem is not None:
        return None, (*roles.findings, _unresolved(context, roles.problem))
    if any(finding.severity is Severity.ERROR for finding in roles.findings):
        return None, roles.findings
    roles = with_known_contents(with_computed_sizes(roles, launched), launched)
    launch = resolve_launch(context, roles)
    roles = replace(roles, dims=(*roles.dims, *launch.host_sizes))
    unknown = _unknown_dims(context, roles, launch) if launch.problem is None else []
    if launched is not None and (unknown or not launch.from_source):
        return launched, ()
    if launch.problem is not None:
        return None, (*roles.findings, _unresolved(context, launch.problem))
    if unknown:
        return None, (*roles.findings, *unknown)
    plan = Plan(
        kernel=context.spec.name,
        entry=instance.expression,
        dtype=instance.dtype or _dtype(context.spec, roles),
        args=roles.args,
        dims=_checked_dims(context, roles, launch, launched) if roles.inferred else roles.dims,
        grid=launch.grid,
        block=launch.block,
        shared=launch.shared or parse(0),
        place=context.place,
        inferred=roles.inferred,
        notes=_notes(roles, launch),
        alternative=launched,
    )
    if roles.inferred and context.spec.reference is None:
        plan = replace(plan, facts=_facts_of_signature(plan, launch, launched))
    return plan, roles.findings


def _facts_of_signature(plan: Plan, launch: ResolvedLaunch, launched: Plan | None) -> Facts:
    """Return the facts of a plan that follows from the kernel's signature.

    Its sizes are those for which the kernel is written: any that the checks on the way to ``launched`` allow.
    """
    unknown = sorted(dim.name for dim in launch.host_sizes)
    undetermined = assumed(f"the program does not determine {', '.join(unknown)}")
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg)]
    threads = " x ".join(map(str, plan.block))
    less = f"the program passes less than its own size for {', '.join(sorted(launch.less))}"
    extent = assumed(less) if launch.less else FITTED
    return Facts(
        PlanOrigin.SIGNATURE,
        sizes={dim.name: launch.fact_of(dim.name) for dim in plan.dims},
        buffers={
            arg.param: BufferFact(
                extent=extent if arg.texture is None else assumed(f"assumes the extents of '{arg.param}'"),
                role=assumed(f"assumes that '{arg.param}' is an output"),
            )
            for arg in tensors
        },
        block=assumed(f"assumes a block of {threads} threads") if launch.assumed_block else READ,
        own_block=launch.fixed_block,
        arrays=assumed("assumes the number of threads that its arrays are for") if _is_of_another_block(plan) else READ,
        relations=undetermined if len(unknown) > 1 or (unknown and len(plan.dims) > _MOST_INDEPENDENT) else READ,
        contents=assumed(""),
        path=Path() if launched is None else Path(launched.facts.path.conditions, aliases=passed_sizes(launched)),
    )


def _is_of_another_block(plan: Plan) -> bool:
    """Return whether no template argument of the instance is an extent of the block, as the size of a tile is."""
    arguments = {int(text) for text in _INTEGER.findall(plan.entry.partition("<")[2])}
    extents = [constant(extent) for extent in plan.block]
    threads = math.prod(extent or 1 for extent in extents)
    return bool(arguments) and None not in extents and arguments.isdisjoint({*extents, threads, 1})


def _plan_of_launch(
    context: KernelContext, instance: KernelInstance, host: HostPlan
) -> tuple[Plan, tuple[Finding, ...]]:
    """Return the plan of a launch that the program makes, and the hint that says which it is."""
    roles, launch = host.roles, host.launch
    plan = Plan(
        kernel=context.spec.name,
        entry=instance.expression,
        dtype=instance.dtype or _dtype(context.spec, roles),
        args=roles.args,
        dims=_supported_dims(context, roles, launch, _of_any_value(host.facts)),
        grid=launch.grid,
        block=launch.block,
        shared=launch.shared or parse(0),
        place=context.place,
        inferred=host.open,
        notes=_notes(replace(roles, inferred=True), launch),
        facts=host.facts,
    )
    if host.open:
        return plan, ()
    name = host.variant
    how = f"as the program launches '{name}', which has the same parameters" if name else "as the program launches it"
    message = f"'{plan.kernel}' is checked {how}: {'; '.join(plan.notes)}."
    computed = sorted(name for name, one in host.facts.buffers.items() if one.relation.claim is Claim.NOTHING)
    if computed:
        names_ = ", ".join(f"'{name}'" for name in computed)
        reason = f"How the program computes the lengths of {names_} is not known"
        message = f"{message} {reason}, and accesses behind them are not reported."
    hint = make("config/launch-inferred", message, plan.place, kernel=plan.kernel, dtype=plan.dtype)
    return plan, (hint,)


def _shows_outputs(plan: Plan) -> bool:
    """Return whether a launch of one size leaves only lengths of inputs open, which the probe finds for that size."""
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg)]
    known = all(arg.shape for arg in tensors if arg.direction != "in")
    return len(plan.dims) == 1 and known and not plan.facts.assumed_values and not plan.facts.assumed_sizes


def _of_any_value(facts: Facts) -> frozenset[str]:
    """Return the dims that may have any value."""
    return frozenset(name for name, fact in facts.sizes.items() if fact.every)


def _supported_dims(
    context: KernelContext,
    roles: ArgumentRoles,
    launch: ResolvedLaunch,
    ragged: Container[str] = (),
    checked: Mapping[str, DimSpec] = {},
) -> tuple[DimSpec, ...]:
    """Return the inferred sizes, restricted to those that the host code and the kernel's body support.

    ``ragged`` are those of which the host code supports every value, ``checked`` the sizes of the program's launch by
    the parameter that they are passed for.
    """
    passed = filter(None, map(computed_size, roles.args))
    dims = divisible(roles.dims, launch.grid, ragged, passed) if launch.from_source else roles.dims
    sizes = [arg.param for arg in roles.args if isinstance(arg, ScalarArg)]
    known = {**{dim.name: dim for dim in roles.dims}, **checked}
    stated = {name for name, dim in known.items() if dim.multiple_of > 1}
    divisors = size_divisors(context, sizes, launch.block, grid_tiles(launch.grid), stated)
    powers = power_of_two_sizes(context, sizes)
    computed = divisors_of_computed_sizes(roles.args, divisors)
    return tuple(
        replace(dim, minimum=_POWERS_OF_TWO[0], maximum=_POWERS_OF_TWO[-1], choices=_POWERS_OF_TWO)
        if dim.name in powers
        else replace(dim, multiple_of=math.lcm(dim.multiple_of, divisors.get(dim.name, 1), computed.get(dim.name, 1)))
        for dim in dims
    )


def _checked_dims(
    context: KernelContext, roles: ArgumentRoles, launch: ResolvedLaunch, launched: Plan | None
) -> tuple[DimSpec, ...]:
    """Return the supported sizes with what the program's checks say of the arguments of its launch."""
    by_host = {} if launched is None else {dim.name: dim for dim in launched.dims}
    passed = {} if launched is None else passed_sizes(launched)
    checked = {name: by_host[host] for host, name in passed.items() if host in by_host}
    dims = _supported_dims(context, roles, launch, checked=checked)
    return tuple(within(dim, checked[dim.name]) if dim.name in checked else dim for dim in dims)


def _compiled_types(context: KernelContext, mangled: str) -> dict[str, str]:
    """Map the parameter types as written to those in the mangled name."""
    params = context.declaration.params
    types = parameter_types(mangled)
    if types is None or len(types) != len(params):
        return {}
    return {param.type: text.rstrip("*&") for param, text in zip(params, types, strict=True)}


def _unknown_dims(context: KernelContext, roles: ArgumentRoles, launch: ResolvedLaunch) -> list[Finding]:
    """Return a finding for each name in the launch that is not a dim.

    Names in ``[kernels.launch]`` are checked here and not when gpuemu.toml is loaded, because inferred arguments
    define dims too.
    """
    known = [dim.name for dim in roles.dims]
    shared = (launch.shared,) if launch.shared is not None else ()
    kernel = context.spec.name
    findings = []
    for key, expressions in (("grid", launch.grid), ("block", launch.block), ("shared", shared)):
        for name in sorted(set().union(*(names(expression) for expression in expressions)) - set(known)):
            message = f"Unknown dimension '{name}' in the launch of '{kernel}'; known: {', '.join(known) or 'none'}."
            place = context.config_place(f"launch.{key}")
            findings.append(make("config/bad-value", message, place, kernel=kernel))
    return findings


def _dtype(spec: KernelSpec, roles: ArgumentRoles) -> str:
    """Return the dtype that a check of the kernel is for: that of its buffers, or of its scalars without any."""
    tensors = [arg for arg in roles.args if isinstance(arg, TensorArg)]
    if not tensors:
        # The kernel works on __device__ variables, whose types are the same in every check.
        return (*(spec.dtypes or ()), *(arg.dtype for arg in roles.args), _NO_DTYPE)[0]
    outputs = [arg for arg in tensors if arg.direction != "in"]
    floats = [arg for arg in (*outputs, *tensors) if "float" in arg.dtype]
    return (floats or outputs or tensors)[0].dtype


def _notes(roles: ArgumentRoles, launch: ResolvedLaunch) -> tuple[str, ...]:
    if not roles.inferred:
        return ()
    tensors = [arg for arg in roles.args if isinstance(arg, TensorArg)]
    shapes = [f"{arg.param}: {arg.direction} [{', '.join(map(str, arg.shape)) or '?'}]" for arg in tensors]
    if not tensors:
        shapes = [f"{arg.param} = {arg.value}" for arg in roles.args if isinstance(arg, ScalarArg)]
    return (*shapes, *launch.notes)


def _unsupported_dtypes(context: KernelContext, plans: list[Plan]) -> list[Finding]:
    """Return a finding for each configured dtype that the signature does not have; no plan would check it."""
    spec = context.spec
    assert spec.dtypes is not None
    supported = {plan.dtype for plan in plans}
    return [
        make(
            "config/bad-value",
            f"'{spec.name}' is not a template: its pointers are {', '.join(sorted(supported))}, "
            f"so it cannot be checked as {dtype}.",
            context.config_place("dtypes"),
            kernel=spec.name,
        )
        for dtype in spec.dtypes
        if dtype not in supported
    ]


def _unresolved(context: KernelContext, problem: str) -> Finding:
    spec, name, reason = context.spec, context.declaration.name, {"reason": problem.rstrip(".")}
    if spec.reference is None and spec.args is None and context.registered:
        message = f"'{name}' was compiled but not run: {problem.rstrip('.')}.\n{template(context)}"
        severity = Severity.WARNING
        return make("engine/not-executed", message, context.place, kernel=spec.name, severity=severity, data=reason)
    if spec.reference is None and spec.args is None:
        message = f"'{name}' was compiled but not run: {problem}. Register it in gpuemu.toml to have it checked."
        severity = Severity.HINT
        return make("engine/not-executed", message, context.place, kernel=spec.name, severity=severity, data=reason)
    message = f"'{name}' was not run: {problem.rstrip('.')}.\n{template(context)}"
    return make("config/ambiguous-signature", message, context.place, kernel=spec.name, data=reason)


def _texture_parameter(context: KernelContext, param: Param) -> Finding:
    """Return the finding of a parameter for which no configuration can give a value."""
    kind = "surface" if "urface" in param.type else "texture"
    message = (
        f"'{context.declaration.name}' was compiled but not run: '{param.name}' is a {kind} object ({param.type}), and "
        f"{kind}s cannot be registered."
    )
    severity = Severity.WARNING if "name" in context.spec.places else Severity.HINT
    hint = make("engine/not-executed", message, context.place, kernel=context.spec.name, severity=severity)
    return replace(hint, cause=Cause.TEXTURE_OBJECT)
