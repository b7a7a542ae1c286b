"""Plans of a kernel as the program launches it: sizes, buffers and their contents as the host code has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.plan.arguments import ArgumentRoles
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.host.arithmetic import low_bits
from gpuemu_lsp.engine.plan.host.constraints import Constraints, guarded_sizes, tile_sizes, unused_parameters
from gpuemu_lsp.engine.plan.host.preference import is_instance, is_refuted, preference, template_of
from gpuemu_lsp.engine.plan.host.reading import (
    ReadHostLaunch,
    dynamic_shared_memory,
    host_launches,
    is_complete,
    is_copied_back,
)
from gpuemu_lsp.engine.plan.host.symbolic import (
    UNKNOWN_OFFSET,
    Polynomial,
    TooComplexError,
    add,
    divide,
    number,
    substitute,
    symbols,
)
from gpuemu_lsp.engine.plan.host.values import (
    Allocation,
    FloatValue,
    Pointer,
    RecordValue,
    Tensor,
    Truth,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.plan.launch import ResolvedLaunch
from gpuemu_lsp.engine.plan.model import BranchValues, PlanArg, ReadLaunch, ScalarArg, StructMember, TensorArg
from gpuemu_lsp.engine.plan.struct_arguments import StructParam
from gpuemu_lsp.engine.plan.struct_layout import Leaf
from gpuemu_lsp.engine.plan.textures.objects import is_object, object_argument
from gpuemu_lsp.engine.plan.types import INTEGERS, ElementType, dtype_size, element_type
from gpuemu_lsp.engine.project.expressions import MAX_LENGTH, Expression, names, parse
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.source.model import Param

_MAX_DIMS = 8
_MULTIPLE = 128


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What a launch in the program says about one instance of a kernel."""

    roles: ArgumentRoles
    launch: ResolvedLaunch
    read: ReadLaunch
    open: bool = False
    """The lengths of some buffers are not known. Their shapes are empty."""


@dataclass(slots=True)
class _Building:
    """State while one launch is turned into a plan."""

    context: KernelContext
    found: ReadHostLaunch
    constraints: Constraints
    few: bool = False
    """Integers that the program computes in a way that is not known are no sizes: there would be too many."""
    uncertain: set[str] = field(default_factory=set)
    unjudged: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    ranks: dict[str, Expression] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    open: bool = False

    def is_unknown(self, value: Polynomial) -> bool:
        """Return whether an integer depends on one that the program computes in a way that is not known."""
        known = self.found.run.symbols
        return any(known[name].origin == "computed" for name in symbols(substitute(value, self.constraints.equal)))

    def expression(self, value: Polynomial) -> Expression:
        """Return an integer as an expression over dims.

        Raises
        ------
        TooComplexError
            If it is too long.
        """
        value = substitute(value, self.constraints.equal)
        self.used |= symbols(value)
        written = str(value)
        if len(written) > MAX_LENGTH // 4:
            raise TooComplexError
        return parse(written)


def host_plan(context: KernelContext) -> HostPlan | None:
    """Return the plan of the first launch in the program that determines one; None if there is none."""
    found = host_launches(context.source, context.declaration.name, context.spec.include_dirs)
    complete = [one for one in found if is_complete(one.launch)]
    suited = [one for one in complete if is_instance(context, template_of(context, one.launch))]
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


def host_templates(context: KernelContext) -> list[tuple[str, ...]]:
    """Return the template arguments with which the program launches a kernel."""
    found = host_launches(context.source, context.declaration.name, context.spec.include_dirs)
    templates = (template_of(context, one.launch) for one in found)
    return list(dict.fromkeys(template for template in templates if template))


def _built(context: KernelContext, one: ReadHostLaunch, few: bool = False) -> HostPlan | None:
    params, values = context.declaration.params, one.launch.arguments
    if len(values) > len(params):
        return None
    pointers = [value for value in values if isinstance(value, Pointer)]
    if pointers and all(value.allocation is None for value in pointers):
        return None
    constraints = Constraints(one, tile_sizes(context, one.launch), guarded_sizes(context, one.launch))
    building = _Building(context, one, constraints, few)
    args: list[PlanArg] = []
    for index, param in enumerate(params):
        value = values[index] if index < len(values) else Unknown()
        made = list(_arguments(building, param, value))
        if not made:
            return None
        args += made
    args = _with_shared_memory(args, values, building)
    grid = tuple(building.expression(extent) for extent in one.launch.grid if extent is not None)
    block = tuple(building.expression(extent) for extent in one.launch.block if extent is not None)
    shared = building.expression(dynamic_shared_memory(one))
    dims = tuple(map(constraints.dim, sorted(building.used)))
    if len(dims) > _MAX_DIMS:
        return None if few else _built(context, one, few=True)
    ragged = frozenset(filter(constraints.is_ragged, building.used))
    if not building.open:
        # Buffers of assumed lengths hold small sizes only.
        dims = tuple(dim if dim.name in ragged else _with_multiple(dim) for dim in dims)
    free = frozenset(name for name in building.used if constraints.is_free(name))
    used = [arg for arg in args if isinstance(arg, ScalarArg) and arg.param not in unused_parameters(context)]
    passed = [arg.value for arg in used if isinstance(arg.value, Expression)]
    known = frozenset[str]().union(*map(names, (*passed, *grid, *block, shared)))
    hidden = {name for name in building.used - known if one.run.symbols[name].origin in ("parameter", "constant")}
    sizes = {name: size for name, size in constraints.program_sizes().items() if name in building.used}
    read = ReadLaunch(
        uncertain=frozenset(building.uncertain),
        ragged=ragged,
        values={name: constraints.values(name) for name in building.used},
        free=free,
        unjudged=frozenset(building.unjudged) | {params[position].name for position in one.launch.parts},
        unseen=frozenset(building.unseen),
        hidden=frozenset(hidden),
        ranks=building.ranks,
        host=True,
        open_lengths=building.open,
        refuted=is_refuted(one),
        branches=tuple(_branch_values(building)),
        program_sizes=sizes,
        divisors={
            name: tuple(divisor for divisor in constraints.exact_divisors(name) if size % divisor == 0)
            for name, size in sizes.items()
        },
    )
    file = "" if one.launch.path == context.source.path else f"{one.launch.path.rsplit('/', 1)[-1]} "
    launch = ResolvedLaunch(grid, block, shared, (f"launch of {file}line {one.launch.line + 1}",), from_source=True)
    roles = ArgumentRoles(tuple(args), dims)
    return HostPlan(roles, launch, read, building.open)


def _branch_values(building: _Building) -> Iterator[BranchValues]:
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


def _with_multiple(dim: DimSpec) -> DimSpec:
    """Return a size that a kernel may expect to be a multiple of its tile, with such a value among those tried."""
    low, high = dim.minimum or 1, dim.maximum or _MULTIPLE
    suits = not dim.choices and not dim.include and low <= _MULTIPLE <= high and _MULTIPLE % dim.multiple_of == 0
    return replace(dim, include=(_MULTIPLE,)) if suits else dim


def _arguments(building: _Building, param: Param, value: Value) -> Iterator[PlanArg]:
    """Yield the argument of a parameter, one for each member of a struct; none if it is not known."""
    context = building.context
    known = element_type(param.type, context.type_aliases)
    if is_object(param):
        building.unjudged.add(param.name)
        yield object_argument(context, param, _threads(building))
        return
    if param.pointer:
        if param.pointer_depth > 1:
            return
        yield from _tensor(building, param.name, known or ElementType("uint8"), known is None, param.const, value)
        return
    struct = StructParam.of(context, param)
    if struct is not None:
        if struct.layout is not None:
            for leaf in struct.layout.leaves:
                made = list(_member(building, param.name, leaf, value))
                if not made:
                    return
                yield from (
                    replace(arg, member=StructMember(param.name, leaf.offset, struct.layout.size)) for arg in made
                )
        return
    if known is None or known.lanes != 1:
        return
    yield _scalar(building, param.name, known.dtype, value)


def _threads(building: _Building) -> list[Expression]:
    """Return the threads of the launch along each axis that has any."""
    launch = building.found.launch
    pairs = zip(launch.grid, launch.block, strict=False)
    extents = [(building.expression(grid), building.expression(block)) for grid, block in pairs if grid and block]
    return [parse(f"({grid}) * ({block})") for grid, block in extents]


def _member(building: _Building, name: str, leaf: Leaf, value: Value) -> Iterator[PlanArg]:
    inner = value
    for part in re.findall(r"\w+|\[\d+\]", leaf.path):
        inner = inner.fields.get(part, Unknown()) if isinstance(inner, RecordValue) else Unknown()
    path = f"{name}.{leaf.path}"
    if leaf.pointer_depth == 1:
        yield from _tensor(
            building, path, leaf.element or ElementType("uint8"), leaf.element is None, leaf.const, inner
        )
    elif leaf.pointer_depth == 0 and leaf.element is not None and leaf.element.lanes == 1:
        yield _scalar(building, path, leaf.element.dtype, inner)


def _scalar(building: _Building, name: str, dtype: str, value: Value) -> ScalarArg:
    if dtype in INTEGERS or dtype == "bool":
        if isinstance(value, Truth) and value.value is not None:
            return ScalarArg(name, name, dtype, value.value if dtype == "bool" else parse(int(value.value)))
        if isinstance(value, FloatValue) and value.top is not None and value.bottom is not None:
            value = divide(value.top, value.bottom)
        if isinstance(value, Polynomial) and not (building.few and building.is_unknown(value)):
            if dtype == "bool":
                return ScalarArg(name, name, dtype, (value.constant or 0) != 0)
            return ScalarArg(name, name, dtype, building.expression(low_bits(value, dtype)))
        if dtype == "bool":
            return ScalarArg(name, name, dtype, True)
        # An integer that the host code does not show may be anything: no claim holds for it.
        building.unseen.add(name)
        return ScalarArg(name, name, dtype, parse(1))
    number_ = value.value if isinstance(value, FloatValue) else None
    if isinstance(value, Polynomial):
        number_ = None if value.constant is None else float(value.constant)
    return ScalarArg(name, name, dtype, 0.5 if number_ is None else number_)


def _tensor(
    building: _Building, name: str, known: ElementType, opaque: bool, const: bool, value: Value
) -> Iterator[PlanArg]:
    if isinstance(value, Tensor):
        value = Pointer(value.allocation, number(0))
    if isinstance(value, Pointer) and value.allocation is None:
        yield ScalarArg(name, name, "uint64", parse(0))
        return
    bounds: tuple[Expression | float, Expression | float] | None = None
    allocation = value.allocation if isinstance(value, Pointer) else None
    memory = None if allocation is None else building.found.launch.memory[allocation]
    whole = memory is not None and isinstance(value, Pointer) and _is_placed(memory, value, known)
    elements = _elements(memory, value, known, whole) if memory is not None and isinstance(value, Pointer) else None
    if elements is None and isinstance(value, Pointer) and value.offset.constant == 0:
        elements = _tensor_elements(building, name, allocation)
    if opaque and memory and memory.size is None:
        elements = None  # Those of a tensor passed as `void*` may have any size.
    if memory is None or elements is None or allocation is None or not isinstance(value, Pointer):
        building.open = True
        if known.dtype in INTEGERS:
            building.unseen.add(name)
            bounds = parse(0), parse(1)
        yield TensorArg(name, name, "in" if const else "inout", known.dtype, (), bounds, lanes=known.lanes)
        return
    starts_later = value.offset.constant != 0
    if starts_later and not whole:
        building.uncertain.add(name)
    if starts_later:
        # The kernel need not write what lies before the address.
        building.unjudged.add(name)
    written = memory.contents.kind == "none" and memory.space != "parameter" and not memory.shared
    # A graph is launched after the code that captures it, and more than once.
    written = written and "cudaGraphLaunch" not in building.context.source.text
    direction = "out" if written else "in" if const else "inout"
    if direction == "out" and (const or not is_copied_back(building.found, allocation, memory)):
        building.unjudged.add(name)
    shape = building.expression(elements)
    if known.dtype in INTEGERS:
        bounds = _range(building, name, memory, opaque)
    offset = building.expression(value.offset) if starts_later and whole else None
    yield TensorArg(name, name, direction, known.dtype, (shape,), bounds, lanes=known.lanes, pointer_offset=offset)


def _tensor_elements(building: _Building, name: str, allocation: int | None) -> Polynomial | None:
    """Return the number of elements of a tensor that a caller passes; None if its rank is assumed or not known."""
    tensor = building.found.run.tensors.get(allocation or 0)
    if tensor is None:
        return None
    elements, assumed = building.constraints.tensor_elements(tensor)
    if elements is not None and assumed:
        building.ranks[name] = building.expression(elements)
    return None if assumed else elements


def _is_placed(memory: Allocation, pointer: Pointer, known: ElementType) -> bool:
    """Return whether it is known where in its allocation a pointer points to.

    An offset with other symbols than the size, such as the variable of a loop, may be any.
    """
    if memory.size is None or memory.space == "parameter":
        return False
    return symbols(pointer.offset) <= symbols(memory.size)


def _elements(memory: Allocation, pointer: Pointer, known: ElementType, whole: bool) -> Polynomial | None:
    """Return the length of a buffer in values, from its begin if it is ``whole``; None if it is not known."""
    if UNKNOWN_OFFSET in symbols(pointer.offset):
        return None
    if memory.elements is not None and memory.size is None:
        return memory.elements if pointer.offset.constant == 0 else None
    if memory.size is None:
        return None
    length = memory.size if whole else add(memory.size, pointer.offset, -1)
    return divide(length, number(dtype_size(known.dtype)))


def _range(
    building: _Building, name: str, memory: Allocation, opaque: bool
) -> tuple[Expression | float, Expression | float]:
    contents = memory.contents
    if contents.low is not None and contents.high is not None and not opaque:
        if not contents.shown:
            building.unseen.add(name)
        return building.expression(contents.low), building.expression(contents.high)
    if contents.kind != "none":
        building.unseen.add(name)
    return parse(0), parse(1)


def _with_shared_memory(args: list[PlanArg], values: tuple[Value, ...], building: _Building) -> list[PlanArg]:
    """Return the arguments, of which those that point into one allocation share memory.

    Such a buffer is not one that the kernel has to write. Where it is passed as different types, its extents are
    uncertain.
    """
    given = [value.allocation for value in values if isinstance(value, Pointer) and value.allocation is not None]
    if len(set(given)) == len(given):
        return args
    allocations = {
        param.name: value.allocation
        for param, value in zip(building.context.declaration.params, values, strict=False)
        if isinstance(value, Pointer) and given.count(value.allocation or 0) > 1
    }
    owners: dict[int | None, TensorArg] = {}
    made: list[PlanArg] = []
    for arg in args:
        if isinstance(arg, TensorArg) and arg.param in allocations:
            arg = replace(arg, direction="inout")
            owner = owners.setdefault(allocations[arg.param], arg)
            building.unjudged.add(arg.param)
            if owner is not arg:
                same = (owner.dtype, owner.shape) == (arg.dtype, arg.shape) and arg.shape
                if same and not {owner.param, arg.param} & building.uncertain:
                    arg = replace(arg, shares=owner.param, range=owner.range)
                else:
                    building.uncertain |= {owner.param, arg.param}
        made.append(arg)
    return made
