"""Plans of a kernel as the program launches it: sizes, buffers and their contents as the host code has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.values import Pointer, Unknown
from gpuemu_lsp.engine.plan.arguments import ArgumentRoles
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.facts import (
    READ,
    BranchValues,
    Claim,
    Facts,
    Path,
    PlanOrigin,
    SizeFact,
    Source,
    assumed,
)
from gpuemu_lsp.engine.plan.host.chosen_launches import (
    ReadHostLaunch,
    dynamic_shared_memory,
    host_launches,
    is_complete,
    with_open_grid,
)
from gpuemu_lsp.engine.plan.host.constraints import LaunchSizes
from gpuemu_lsp.engine.plan.host.parameters.arguments import arguments
from gpuemu_lsp.engine.plan.host.parameters.builder import Building
from gpuemu_lsp.engine.plan.host.parameters.kernel_sizes import guarded_sizes, kernel_sizes
from gpuemu_lsp.engine.plan.host.parameters.pointers import with_shared_memory
from gpuemu_lsp.engine.plan.host.preference import is_instance, is_refuted, may_be_overload, preference, template_of
from gpuemu_lsp.engine.plan.model import PlanArg, ResolvedLaunch, ScalarArg
from gpuemu_lsp.engine.project.expressions import Expression, names
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.engine.symbolic.conditions import conjuncts
from gpuemu_lsp.engine.symbolic.size import (
    TooComplexError,
    symbols,
)

_MAX_DIMS = 8
_MULTIPLE = 128
_MAX_THREADS = 512
_SELECTED = "the program selects this kernel among others for some sizes only, which are not known"
_REFUTED = "an assertion of the program does not hold where it reaches this launch"


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What a launch in the program says about one instance of a kernel."""

    roles: ArgumentRoles
    launch: ResolvedLaunch
    facts: Facts
    variant: str = ""
    """The kernel with the same parameters that the program launches this way, where it never launches this one."""
    open: bool = False
    """The lengths of some buffers are not known. Their shapes are empty."""
    rounded_down: bool = False
    """The launch drops elements of a size that callers determine, and with which the kernel compares."""


def host_plan(context: KernelContext) -> HostPlan | None:
    """Return the plan of the first launch in the program that determines one; None if there is none."""
    found = host_launches(context.source, context.declaration.name, context.spec.include_dirs)
    suited = _suited(context, found)
    scalar = next((known for known in context.bindings.values() if element_type(known) is not None), None)
    if not suited and found and scalar is not None:
        # A template function of the host code is instantiated for several types.
        assumed_type = HostAssumptions(scalar)
        typed = host_launches(context.source, context.declaration.name, context.spec.include_dirs, assumed_type)
        suited = _suited(context, typed)
    made = _first(context, suited)
    if made is None and not any(is_complete(one.launch) for one in found):
        made = _first(context, _suited(context, map(with_open_grid, found)))
        return replace(made, open=True) if made is not None else None
    return made


def variant_plan(context: KernelContext) -> HostPlan | None:
    """Return the plan of a launch of another kernel with the same parameters: versions of one kernel are in a file."""
    own = _types(context.declaration)
    for other in context.source.kernels:
        alike = not other.template and not context.declaration.template and _types(other) == own
        if not alike or other.name == context.declaration.name:
            continue
        made = _first(context, _suited(context, host_launches(context.source, other.name, context.spec.include_dirs)))
        if made is not None:
            never = f"the program launches '{other.name}' in this way, and never this kernel"
            # Arrays, barriers and outputs of a kernel are for its own number of threads, which may be another one.
            arrays = assumed(never, Claim.NOTHING)
            return replace(made, facts=replace(made.facts, instance=assumed(never), arrays=arrays), variant=other.name)
    return None


def _types(declaration: KernelDecl) -> list[tuple[str, int]]:
    return [(param.type, param.pointer_depth) for param in declaration.params]


def _suited(context: KernelContext, found: Iterable[ReadHostLaunch]) -> list[ReadHostLaunch]:
    complete = (one for one in found if is_complete(one.launch) and may_be_overload(context, one.launch))
    return [one for one in complete if is_instance(context, template_of(context, one.launch))]


def _first(context: KernelContext, suited: Iterable[ReadHostLaunch]) -> HostPlan | None:
    """Return the plan of the first launch that determines one, of one that leaves lengths open if there is no other."""
    opened: HostPlan | None = None
    for one in sorted(suited, key=preference):
        try:
            made = _built(context, one)
        except (TooComplexError, ValueError):
            continue
        if made is not None and not made.open:
            return made
        opened = opened or made
    return opened


def host_templates(context: KernelContext) -> tuple[list[tuple[str, ...]], bool]:
    """Return the template arguments with which the program launches a kernel, those of its callers first.

    And whether they are assumed, as those of a function template that nothing instantiates.
    """
    launches = partial(host_launches, context.source, context.declaration.name, context.spec.include_dirs)
    own = launches(called=False)
    found = (*launches(), *(one for one in own if not one.generic)) or own
    templates = (template_of(context, one.launch) for one in found if may_be_overload(context, one.launch))
    generic = bool(found) and all(one.generic for one in found)
    return list(dict.fromkeys(template for template in templates if template)), generic


def _built(context: KernelContext, one: ReadHostLaunch, few: bool = False) -> HostPlan | None:
    params, values = context.declaration.params, one.launch.arguments
    if len(values) > len(params):
        return None
    pointers = [value for value in values if isinstance(value, Pointer)]
    if pointers and all(value.allocation is None for value in pointers):
        return None
    sizes = kernel_sizes(context, one.launch, one.run)
    constraints = LaunchSizes(one, sizes.tiles, guarded_sizes(context, one.launch))
    building = Building(context, one, constraints, few)
    args: list[PlanArg] = []
    for index, param in enumerate(params):
        value = values[index] if index < len(values) else Unknown()
        made = list(arguments(building, param, value))
        if not made:
            return None
        args += made
    args = with_shared_memory(args, values, building)
    grid = tuple(building.expression(extent) for extent in one.launch.grid if extent is not None)
    block = tuple(building.expression(extent) for extent in one.launch.block if extent is not None)
    shared = building.expression(dynamic_shared_memory(one))
    dims = tuple(map(constraints.dim, sorted(building.used)))
    if len(dims) > _MAX_DIMS:
        return None if few else _built(context, one, few=True)
    if context.code is not None and context.code.compares_block_indices:
        # A kernel that compares block indices with each other skips a part of its output for every size.
        building.unjudged |= {arg.param for arg in args}
    ragged = frozenset(filter(constraints.is_ragged, building.used))
    bounded, rounded = sizes.bounded & building.used, sizes.rounded & building.used
    strided = bounded - frozenset[str]().union(*map(names, (*grid, *block)))
    threads = math.prod(extent.constant or 1 for extent in one.launch.block if extent is not None)
    dims = tuple(_with_second_round(dim, threads) if dim.name in strided else dim for dim in dims)
    if not building.open:
        # Buffers of assumed lengths hold small sizes only.
        dims = tuple(dim if dim.name in ragged else _with_multiple(dim) for dim in dims)
    free = frozenset(name for name in building.used if constraints.is_free(name, building.used))
    # A kernel has a size as a number, if it depends on it.
    unused = frozenset() if context.code is None else context.code.unused_parameters
    used = [arg for arg in args if isinstance(arg, ScalarArg) and context.number_of(arg.param) not in unused]
    passed = [arg.value for arg in used if isinstance(arg.value, Expression)]
    known = frozenset[str]().union(*map(names, (*passed, *grid, *block, shared)))
    hidden = {name for name in building.used - known if one.run.symbols[name].origin in ("parameter", "constant")}
    # A kernel cannot demand anything of a size that a user chooses and it never gets.
    chosen = frozenset(name for name in building.used - known if one.run.symbols[name].origin == "input")
    own = {name: size for name, size in constraints.program_sizes().items() if name in building.used}
    choices = {dim.name: frozenset(dim.choices) for dim in dims if dim.choices}
    conditions = tuple(_conditions(building))
    sides = (side for _, *both in conditions for side in both)
    compared = frozenset[str]().union(*map(names, (*passed, *sides)))
    facts = Facts(
        PlanOrigin.HOST_CODE,
        sizes={
            name: _size_fact(
                constraints.values(name) | choices.get(name, frozenset()),
                constraints.exact_divisors(name),
                every=name in ragged | rounded | chosen,
                guarded=name in bounded,
                separate=name in hidden,
                free=name in free,
                own=own.get(name),
            )
            for name in building.used
        },
        buffers=dict(building.buffers(args, {params[position].name for position in one.launch.parts}, compared, known)),
        values=building.values,
        relations=assumed("the program does not show how large its buffers are") if building.relates else READ,
        contents=assumed(""),
        path=Path(
            conditions=conditions,
            branches=tuple(_branch_values(building)),
            selected=READ if constraints.is_selected() else assumed(_SELECTED),
            reached=assumed(_REFUTED) if is_refuted(one) else READ,
        ),
    )
    file = "" if one.launch.path == context.source.path else f"{one.launch.path.rsplit('/', 1)[-1]} "
    launch = ResolvedLaunch(grid, block, shared, (f"launch of {file}line {one.launch.line + 1}",), from_source=True)
    roles = ArgumentRoles(tuple(args), dims)
    rounded_down = any(map(constraints.is_rounded_down, building.used))
    return HostPlan(roles, launch, facts, open=building.open, rounded_down=rounded_down)


def _size_fact(
    values: frozenset[int],
    divisors: Iterable[int],
    *,
    every: bool,
    guarded: bool,
    separate: bool,
    free: bool,
    own: int | None,
) -> SizeFact:
    """Return the fact about a size; ``free``: it may depend on others in a way that is not known."""
    return SizeFact(
        Source.ASSUMED if free else Source.READ,
        values,
        every=every and not free,
        multiple=0 if free else _MULTIPLE,
        guarded=guarded and not free,
        separate=separate,
        own=own,
        divisors=() if own is None else tuple(one for one in divisors if own % one == 0),
    )


def _conditions(building: Building) -> Iterator[tuple[str, Expression, Expression]]:
    """Yield the comparisons on the path to the launch that are between the plan's dims."""
    for condition in conjuncts(building.found.launch.conditions):
        left, right = condition.left, condition.right
        if left is None or right is None or not condition.operator:
            continue
        try:
            sides = list(map(building.constraints.known.resolved, (left, right)))
        except TooComplexError:
            continue
        names_ = symbols(sides[0]) | symbols(sides[1])
        if names_ and names_ <= building.used:
            yield condition.operator, building.expression(sides[0]), building.expression(sides[1])


def _branch_values(building: Building) -> Iterator[BranchValues]:
    """Yield the constants of each branch that decides several of the plan's dims, or one by a condition on others."""
    found: dict[int, BranchValues] = {}
    for name in sorted(building.used & building.found.run.sides.keys()):
        branch, condition, first, second = building.found.run.sides[name]
        left, right = condition.left, condition.right
        if left is None or right is None or not symbols(left) | symbols(right) <= building.used:
            known = BranchValues({}, {})
        else:
            known = BranchValues({}, {}, condition.operator, building.expression(left), building.expression(right))
        known = found.get(branch, known)
        found[branch] = replace(known, holds={**known.holds, name: first}, fails={**known.fails, name: second})
    yield from (one for one in found.values() if len(one.holds) > 1 or one.operator)


def _with_second_round(dim: DimSpec, threads: int) -> DimSpec:
    """Return a size over which the threads of a block loop, with one among those tried for which they loop twice."""
    value = (threads // dim.multiple_of + 1) * dim.multiple_of + dim.multiple_of
    suits = not dim.choices and threads <= _MAX_THREADS and value <= (dim.maximum or value)
    return replace(dim, include=(*dim.include, value)) if suits and value not in dim.include else dim


def _with_multiple(dim: DimSpec) -> DimSpec:
    """Return a size that a kernel may expect to be a multiple of its tile, with such a value among those tried."""
    low, high = dim.minimum or 1, dim.maximum or _MULTIPLE
    suits = not dim.choices and not dim.include and low <= _MULTIPLE <= high and _MULTIPLE % dim.multiple_of == 0
    return replace(dim, include=(_MULTIPLE,)) if suits else dim
