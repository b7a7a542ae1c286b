"""Config, signature and launches together: one Plan per dtype, or findings that say what to add."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.findings import Finding, Place, Severity
from gpuemu_lsp.engine.plan.arguments import Roles, settle
from gpuemu_lsp.engine.plan.candidates import grid_tiles
from gpuemu_lsp.engine.plan.divisors import body_divisors, halved
from gpuemu_lsp.engine.plan.entry import Instance, choose_kernel, instances
from gpuemu_lsp.engine.plan.launch import Geometry, divisible, settle_launch
from gpuemu_lsp.engine.plan.mangled import parameter_types
from gpuemu_lsp.engine.plan.model import Plan, PlanResult, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.types import INTEGERS, element_type
from gpuemu_lsp.engine.project.expressions import names, parse
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile

_POWERS = tuple(1 << power for power in range(1, 11))
"""Sizes of what a loop halves down to one."""


def resolve(spec: KernelSpec, source: SourceFile, entries: Mapping[str, str] | None = None) -> PlanResult:
    """Resolve a registered kernel, or one found in a file (then ``spec`` is bare: see :func:`unregistered`).

    ``entries`` maps name expressions to mangled names, once the file was compiled: they tell what typedefs and macros
    in the signature really are.
    """
    decl, findings = choose_kernel(spec, source)
    if decl is None:
        return PlanResult((), (), findings)
    wanted, findings = instances(spec, decl, source)
    if "name" not in spec.places:
        findings = tuple(map(_unasked, findings))
    plans: list[Plan] = []
    collected: list[Finding] = list(findings)
    for instance in wanted:
        plan, found = _plan(spec, decl, source, instance, (entries or {}).get(instance.expression, ""))
        collected.extend(finding for finding in found if finding not in collected)
        if plan is not None:
            plans.append(plan)
    if spec.dtypes and plans and not decl.template:
        collected.extend(_fixed_type(spec, plans))
    guessed = any(instance.guessed for instance in wanted)
    return PlanResult(tuple(plans), tuple(instance.expression for instance in wanted), tuple(collected), guessed)


def _unasked(finding: Finding) -> Finding:
    """A template nobody instantiates is no mistake in a file that nobody registered."""
    if finding.rule != "config/ambiguous-signature":
        return finding
    return make("engine/not-executed", finding.message, finding.place, kernel=finding.kernel, severity=Severity.HINT)


def unregistered(source: SourceFile, decl: KernelDecl, include_dirs: tuple[str, ...] = ()) -> KernelSpec:
    """Return the bare spec of a kernel no gpuemu.toml mentions."""
    return KernelSpec(
        name=decl.name,
        source=source.path,
        reference=None,
        entry=decl.qualified_name,
        include_dirs=include_dirs,
        places={"": Place(source.path, decl.name_range)},
    )


def _plan(
    spec: KernelSpec, decl: KernelDecl, source: SourceFile, instance: Instance, mangled: str
) -> tuple[Plan | None, tuple[Finding, ...]]:
    place = Place(source.path, decl.name_range)
    roles = settle(spec, decl, {**source.constants, **instance.bindings, **_true_types(decl, mangled)})
    if roles.problem is not None:
        return None, (*roles.findings, _ambiguous(spec, decl, roles.problem, place))
    if any(finding.severity is Severity.ERROR for finding in roles.findings):
        return None, roles.findings
    geometry = settle_launch(spec, decl, source, instance.bindings, roles)
    if geometry.problem is not None:
        return None, (*roles.findings, _ambiguous(spec, decl, geometry.problem, place))
    roles = replace(roles, dims=(*roles.dims, *geometry.extra))
    strangers = _unknown(spec, roles, geometry)
    if strangers:
        return None, (*roles.findings, *strangers)
    plan = Plan(
        kernel=spec.name,
        entry=instance.expression,
        dtype=instance.dtype or _dtype(roles),
        args=roles.args,
        dims=_dims(decl, source, instance, roles, geometry) if roles.inferred else roles.dims,
        grid=geometry.grid,
        block=geometry.block,
        shared=geometry.shared or parse(0),
        place=place,
        inferred=roles.inferred,
        notes=_notes(roles, geometry),
        assumed_block=geometry.assumed_block,
        fixed_block=geometry.fixed_block,
    )
    return plan, roles.findings


def _dims(
    decl: KernelDecl, source: SourceFile, instance: Instance, roles: Roles, geometry: Geometry
) -> tuple[DimSpec, ...]:
    """Return the inferred sizes as far as the author's own rounding allows them."""
    dims = divisible(roles.dims, geometry.grid) if geometry.from_source else roles.dims
    sizes = [arg.param for arg in roles.args if isinstance(arg, ScalarArg)]
    definitions = {**source.constants, **instance.bindings}
    steps = body_divisors(decl, source, sizes, definitions, tuple(map(str, geometry.block)), grid_tiles(geometry.grid))
    trees = halved(decl, source, sizes)
    return tuple(
        replace(dim, minimum=_POWERS[0], maximum=_POWERS[-1], choices=_POWERS)
        if dim.name in trees
        else replace(dim, multiple_of=math.lcm(dim.multiple_of, steps.get(dim.name, 1)))
        for dim in dims
    )


def _true_types(decl: KernelDecl, mangled: str) -> dict[str, str]:
    """Map the types of a signature, as written, to what the compiler made of them."""
    types = parameter_types(mangled)
    if types is None or len(types) != len(decl.params):
        return {}
    return {param.type: text.rstrip("*&") for param, text in zip(decl.params, types, strict=True)}


def _unknown(spec: KernelSpec, roles: Roles, geometry: Geometry) -> list[Finding]:
    """Names in the launch that are no dims: the project room cannot know them where the arguments are inferred."""
    known = [dim.name for dim in roles.dims]
    findings = []
    shared = (geometry.shared,) if geometry.shared is not None else ()
    for key, expressions in (("grid", geometry.grid), ("block", geometry.block), ("shared", shared)):
        for name in sorted(set().union(*(names(expression) for expression in expressions)) - set(known)):
            message = f"'{name}' is no size of '{spec.name}'; there are: {', '.join(known) or 'none'}."
            place = spec.places.get(f"launch.{key}") or spec.places[""]
            findings.append(make("config/bad-value", message, place, kernel=spec.name))
    return findings


def _dtype(roles: Roles) -> str:
    tensors = [arg for arg in roles.args if isinstance(arg, TensorArg)]
    outputs = [arg for arg in tensors if arg.direction != "in"]
    floats = [arg for arg in (*outputs, *tensors) if "float" in arg.dtype]
    return (floats or outputs or tensors)[0].dtype


def _notes(roles: Roles, geometry: Geometry) -> tuple[str, ...]:
    if not roles.inferred:
        return ()
    tensors = [arg for arg in roles.args if isinstance(arg, TensorArg)]
    shapes = [f"{arg.param}: {arg.direction} [{', '.join(map(str, arg.shape)) or '?'}]" for arg in tensors]
    return (*shapes, *geometry.notes)


def _fixed_type(spec: KernelSpec, plans: list[Plan]) -> list[Finding]:
    """An explicit dtype the kernel's signature cannot take would otherwise look checked."""
    assert spec.dtypes is not None
    have = {plan.dtype for plan in plans}
    return [
        make(
            "config/bad-value",
            f"'{spec.name}' is not a template: its pointers are {', '.join(sorted(have))}, "
            f"so it cannot be checked as {dtype}.",
            spec.places.get("dtypes") or spec.places[""],
            kernel=spec.name,
        )
        for dtype in spec.dtypes
        if dtype not in have
    ]


def _ambiguous(spec: KernelSpec, decl: KernelDecl, problem: str, place: Place) -> Finding:
    registered = spec.reference is not None or spec.args is not None
    if not registered:
        message = f"'{decl.name}' was compiled but not run: {problem}. Register it in gpuemu.toml to have it checked."
        return make("engine/not-executed", message, place, kernel=spec.name, severity=Severity.HINT)
    message = f"'{decl.name}' was not run: {problem.rstrip('.')}.\n{template(decl)}"
    return make("config/ambiguous-signature", message, place, kernel=spec.name)


def template(decl: KernelDecl) -> str:
    """Return the toml to add for a kernel, as far as its signature tells; the user corrects the shapes."""
    scalars = {param.name: element_type(param.type) for param in decl.params if not param.pointer}
    sizes = [name for name, known in scalars.items() if known is not None and known.dtype in INTEGERS]
    lines = ["Add to gpuemu.toml:", "[kernels.dims]"]
    lines += [f"{name} = {{ min = 1, max = 1024 }}" for name in sizes or ["n"]]
    lines.append("[kernels.args]")
    shape = ", ".join(f'"{name}"' for name in sizes or ["n"])
    for param in decl.params:
        if param.pointer:
            lines.append(f"{param.name} = {{ {'in' if param.const else 'out'} = [{shape}] }}")
        elif param.name in sizes:
            lines.append(f'{param.name} = "{param.name}"')
        else:
            lines.append(f"{param.name} = {'true' if param.type == 'bool' else '1.0'}")
    first = (sizes or ["n"])[0]
    lines += ["[kernels.launch]", f'grid = "ceil_div({first}, 256)"', "block = 256"]
    return "\n".join(lines)
