"""Launch configuration: from gpuemu.toml, from a launch in host code, or one thread per element."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.values import HostLaunch, Value
from gpuemu_lsp.engine.plan.arguments import ArgumentRoles
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.host.chosen_launches import ReadHostLaunch, host_launches, with_open_grid
from gpuemu_lsp.engine.plan.host.preference import template_of
from gpuemu_lsp.engine.plan.model import PlanArg, ResolvedLaunch, ScalarArg
from gpuemu_lsp.engine.project.expressions import (
    Binary,
    Expression,
    ExpressionError,
    Name,
    Node,
    Number,
    constant,
    parse,
    walk,
)
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.symbolic.expressions import expression_of, size_of
from gpuemu_lsp.engine.symbolic.size import Size, TooComplexError, number, substitute, symbol, symbols

_DEFAULT_BLOCK = 256
_MAX_HOST_SIZES = 2


def resolve_launch(context: KernelContext, roles: ArgumentRoles) -> ResolvedLaunch:
    """Return the launch of one instance."""
    configured = context.spec.launch
    if configured is not None and configured.grid is not None and configured.block is not None:
        return ResolvedLaunch(configured.grid, configured.block, configured.shared or parse(0))
    found = _from_host_code(context, roles) or _thread_per_element(context, roles)
    if found is None:
        problem = "the launch is unknown: the file has none whose grid and block are integer arithmetic over its sizes"
        return ResolvedLaunch(problem=problem)
    if configured is None:
        return found
    return ResolvedLaunch(
        configured.grid or found.grid,
        configured.block or found.block,
        configured.shared or found.shared,
        found.notes,
        assumed_block=found.assumed_block and configured.block is None,
        fixed_block=found.fixed_block and configured.block is None,
    )


def divisible(
    dims: tuple[DimSpec, ...],
    grid: tuple[Expression, ...],
    ragged: Container[str] = (),
    passed: Iterable[Expression] = (),
) -> tuple[DimSpec, ...]:
    """Restrict sizes to those the host code supports: a grid of ``n / 256`` blocks needs multiples of 256.

    For launches in host code only; a grid in gpuemu.toml is deliberate. Sizes of ``ragged`` are not restricted by the
    only axis of a grid, nor by ``n // 2`` if that is one of ``passed``, the values of the kernel's arguments.
    """
    rounded = {node for value in passed for node in walk(value)}
    ragged = ragged if sum(constant(axis) != 1 for axis in grid) == 1 else ()
    steps: dict[str, int] = {}
    for expression in grid:
        for node in walk(expression):
            if isinstance(node, Binary) and node.operator == "//" and node not in rounded:
                factors = _factors(node.left)
                step = _share(constant(Expression(node.right, "")) or 1, len(factors))
                for name in factors if step > 0 else []:
                    steps[name] = math.lcm(steps.get(name, 1), step)
    return tuple(
        replace(dim, multiple_of=steps[dim.name])
        if 1 < steps.get(dim.name, 1) <= 1024 and (dim.name not in ragged or dim.multiple_of > 1)
        else dim
        for dim in dims
    )


def _share(step: int, factors: int) -> int:
    """Return what each factor may be a multiple of so that the product is one of ``step``: 32 of 1024 for two."""
    power = step > 1 and step & (step - 1) == 0
    return 1 << -(-(step.bit_length() - 1) // factors) if power and factors > 1 else step


def _factors(node: Node) -> list[str]:
    """Return the names in a product; empty for anything else, such as ``n + 255``."""
    if isinstance(node, Name):
        return [node.name]
    if isinstance(node, Number):
        return []
    if isinstance(node, Binary) and node.operator == "*":
        return [*_factors(node.left), *_factors(node.right)]
    return []


def _from_host_code(context: KernelContext, roles: ArgumentRoles) -> ResolvedLaunch | None:
    """Return the first launch in the program that is integer arithmetic over this kernel's sizes.

    A variable that is passed to a parameter for a size stands for that size, whatever the program gives it.
    """
    if any(arg.member is not None for arg in roles.args):
        return None  # the members of a struct have no argument each
    launches = partial(host_launches, context.source, context.declaration.name, context.spec.include_dirs)
    assumed = HostAssumptions(next(filter(element_type, context.bindings.values()), "float"))
    found = launches(assumed, called=False)
    assumed = replace(assumed, named=frozenset(name for each in found for name in _names_of_sizes(each, roles)))
    own = _first(context, roles, launches(assumed, called=False))
    if own is not None and not _open_numbers(own):
        return own
    # Callers may decide the block, or a template argument.
    called = _first(context, roles, launches(assumed))
    return min(filter(None, (own, called)), key=_open_numbers, default=None)


def _open_numbers(launch: ResolvedLaunch) -> int:
    """Return how many numbers of a launch the program does not show."""
    return len(launch.host_sizes) + launch.assumed_block


def _names_of_sizes(found: ReadHostLaunch, roles: ArgumentRoles) -> Iterator[str]:
    """Yield the variables that a launch passes for sizes, but for those whose value is a size of its own already."""
    triples = zip(found.launch.passed, found.launch.arguments, roles.args, strict=False)
    passed = [(name, _symbol(value)) for name, value, arg in triples if _size(arg) is not None]
    for name, size in passed:
        if name and (size is None or any(other == size and called != name for called, other in passed)):
            yield name


def _first(context: KernelContext, roles: ArgumentRoles, launches: Iterable[ReadHostLaunch]) -> ResolvedLaunch | None:
    """Return the first launch that the kernel's sizes decide, of the same instance if there is one."""
    arguments = tuple(context.bindings.values())
    alike = [found for found in launches if len(found.launch.arguments) == len(roles.args)]
    alike.sort(key=lambda found: template_of(context, found.launch) != arguments)
    resolved = (_resolved(context, roles, found) for found in alike)
    return next((launch for launch in resolved if launch is not None), None)


def _size(arg: PlanArg) -> Size | None:
    """Return the value of an argument that is a size."""
    value = arg.value if isinstance(arg, ScalarArg) else None
    return size_of(value, 1) if isinstance(value, Expression) else None


def _symbol(value: Value) -> str | None:
    """Return the name of a size that is nothing but a symbol."""
    name = next(iter(symbols(value)), "") if isinstance(value, Size) else ""
    return name if name and value == symbol(name, 1) else None


def _is_less(value: Value) -> bool:
    """Return whether a value is a size of the program less a number."""
    return isinstance(value, Size) and value.offset < 0 and (value - number(value.offset)).name is not None


def _resolved(context: KernelContext, roles: ArgumentRoles, found: ReadHostLaunch) -> ResolvedLaunch | None:
    """Return a launch in the program as expressions over dims; None if other numbers decide it."""
    launch, notes = with_open_grid(found).launch, []
    extents = (*launch.grid, *launch.block, launch.shared)
    if any(extent is None for extent in extents):
        return None
    sizes: dict[str, Size] = {}
    for value, arg in zip(launch.arguments, roles.args, strict=True):
        name, size = _symbol(value), _size(arg)
        if name is not None and size is not None:
            sizes.setdefault(name, size)
    passed = zip(launch.arguments, roles.args, strict=True)
    less = frozenset(arg.param for value, arg in passed if _size(arg) is not None and _is_less(value))
    for given, wanted in zip(template_of(context, launch), context.bindings.values(), strict=False):
        if given.startswith("?") and wanted.isdigit():
            sizes.setdefault(given[1:], number(int(wanted)))
    assumed = _open_block(context, launch, sizes)
    if assumed is not None:
        sizes[assumed] = number(_DEFAULT_BLOCK)
        notes.append(f"{assumed} = {_DEFAULT_BLOCK}")
    grid_ = tuple(_named_axis(extent, axis, sizes) for extent, axis in zip(launch.grid, "xyz", strict=False))
    extents = (*grid_, *launch.block, launch.shared)
    open_sizes = [sorted(symbols(extent) - sizes.keys()) for extent in extents if extent is not None]
    host_sizes = list(dict.fromkeys(name for names in open_sizes[: len(launch.grid)] for name in names))
    if any(open_sizes[len(launch.grid) :]) or (host_sizes and not _may_be_sizes(roles, host_sizes)):
        return None
    if host_sizes:
        notes.append(f"{', '.join(host_sizes)}: any")
    try:
        grid, block, (shared,) = (
            tuple(expression_of(substitute(extent, sizes)) for extent in part if extent is not None)
            for part in (grid_, launch.block, (launch.shared,))
        )
    except (TooComplexError, ExpressionError):
        return None
    file = f"{launch.path.rsplit('/', 1)[-1]} " if launch.path != context.source.path else ""
    return ResolvedLaunch(
        grid,
        block,
        shared,
        (*notes, f"launch of {file}line {launch.line + 1}"),
        from_source=True,
        assumed_block=assumed is not None,
        fixed_block=assumed is not None and not _may_use_block_size(context),
        host_sizes=tuple(map(DimSpec, host_sizes)),
        less=less,
    )


def _named_axis(extent: Size | None, axis: str, sizes: Container[str]) -> Size | None:
    """Return the number of blocks on an axis: a size of its own if none of the kernel's sizes decides it."""
    names = symbols(extent) if extent is not None else frozenset[str]()
    is_open = len(names) > 0 and not any(name in sizes for name in names)
    return symbol(f"blocks_{axis}", 1) if extent is not None and is_open and _symbol(extent) is None else extent


def _open_block(context: KernelContext, launch: HostLaunch, sizes: Container[str]) -> str | None:
    """Return the size of a block that the host function does not decide: it may be any sensible one."""
    block, shared = launch.block, launch.shared
    name = _symbol(block[0]) if len(block) == 1 and block[0] is not None else None
    if name is None or name in sizes or _uses_several_axes(context):
        return None
    # Dynamic shared memory of a fixed size fits one block size only.
    has_shared = context.declaration.name in context.source.dynamic_shared
    suits = not has_shared or (shared is not None and name in symbols(shared))
    return name if suits else None


def _may_be_sizes(roles: ArgumentRoles, names: Sequence[str]) -> bool:
    """Return whether numbers in a grid may be sizes that are not passed to the kernel."""
    taken = {dim.name for dim in roles.dims} | {arg.param for arg in roles.args}
    return roles.inferred and len(names) <= _MAX_HOST_SIZES and taken.isdisjoint(names)


def _thread_per_element(context: KernelContext, roles: ArgumentRoles) -> ResolvedLaunch | None:
    """Return a launch with one thread per element, for a kernel with one axis and no dynamic shared memory.

    The elements are those of its only size, else those with which its code compares the number of a thread or block.

    The grid has one block where the kernel never reads its block index, and one thread per block where it never reads
    its thread index. It has one block per element where the kernel numbers no threads of the grid, and as many threads
    as work on each element.
    """
    declaration = context.declaration
    if declaration.name in context.source.dynamic_shared or _uses_several_axes(context):
        return None
    size, undecided = _elements(context, roles)
    if size is None:
        return None
    code = context.code
    any_block = _may_use_block_size(context)
    shown, literal, group = None, None, 1
    if code is not None and not code.reads_thread_index:
        shown = literal = None if any_block else 1
    elif code is not None:
        group, of_groups = code.threads_of_element
        shown = code.block_stride or of_groups or code.array_threads
        # A loop that the compiler has unrolled may show another one.
        literal = code.block_stride or of_groups or (None if any_block else code.loop_threads) or shown
    block = min(literal or _DEFAULT_BLOCK, declaration.max_threads or literal or _DEFAULT_BLOCK)
    if code is not None and not code.reads_block_index:
        blocks = "1"
    elif block == 1 or (code is not None and not code.numbers_threads_of_grid):
        blocks = size
    else:
        blocks = f"ceil_div({size if group == 1 else f'{group} * ({size})'}, {block})"
    return ResolvedLaunch(
        (parse(blocks),),
        (parse(block),),
        parse(0),
        (f"grid = {blocks}", f"block = {block}"),
        assumed_block=True,
        fixed_block=not any_block and shown is None and declaration.max_threads is None,
        undecided=undecided,
    )


def _elements(context: KernelContext, roles: ArgumentRoles) -> tuple[str | None, frozenset[str]]:
    """Return the number of elements that have a thread or a block, and the sizes of which nothing shows what they are.

    Of several sizes the elements are the product with which the number of a thread in the grid is compared. Where each
    block has an element, it is that of the block, or the only size that the code does not read: the number of rows.
    """
    sizes = {arg.param: str(arg.value) for arg in roles.args if isinstance(arg, ScalarArg) and _size(arg) is not None}
    if roles.flat:
        return next(iter(sizes.values())), frozenset()
    code, numbers = context.code, {context.number_of(param): size for param, size in sizes.items()}
    if code is None or context.registered or not roles.inferred or -1 in numbers or len(sizes) < 2:
        return None, frozenset()
    bounds = code.index_bounds(numbers)
    unread = tuple((number,) for number in code.unused_parameters & numbers.keys())
    of_blocks = bounds.blocks or (unread if len(unread) == 1 and code.reads_block_index else ())
    products = tuple(bounds.threads if code.numbers_threads_of_grid else of_blocks)
    if len(products) != 1:
        return None, frozenset()
    decided = {number for one in (*products, *bounds.in_block) for number in one}
    undecided = frozenset(size for number, size in numbers.items() if number not in decided)
    return " * ".join(numbers[number] for number in products[0]), undecided


def _may_use_block_size(context: KernelContext) -> bool:
    """Return whether a kernel reads the size of its block; if not, it is written for one."""
    return context.code is None or context.code.reads_block_size


def _uses_several_axes(context: KernelContext) -> bool:
    """Return whether a kernel uses more than one axis of its launch."""
    return context.code is not None and context.code.uses_several_axes
