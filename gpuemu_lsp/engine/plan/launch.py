"""Launch configuration: from gpuemu.toml, from a launch in host code, or one thread per element."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.plan.arguments import ArgumentRoles
from gpuemu_lsp.engine.plan.cexpr import Scope, translate
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import ScalarArg
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
from gpuemu_lsp.engine.source.model import LaunchSite

_DEFAULT_BLOCK = 256
_NAME = re.compile(r"^[A-Za-z_]\w*$")
_IDENTIFIER = re.compile(r"(?<![\w.:>])[A-Za-z_]\w*(?![\w(:.<]|\s*\()")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MEMBER = re.compile(r"\b([A-Za-z_]\w*)\.([xyz])\b")
_CALL_OR_MEMBER = re.compile(r"[A-Za-z_]\w*\s*(?:\(|\.|->)")
_MAX_DEPTH = 12
_MAX_HOST_SIZES = 2
_KEYWORDS = frozenset(
    {"int", "unsigned", "long", "short", "size_t", "float", "double", "dim3", "sizeof", "const", "auto"}
)


@dataclass(frozen=True, slots=True)
class ResolvedLaunch:
    """Grid, block and shared memory in bytes, as expressions over dims.

    ``notes`` are the assumptions made; ``problem`` is the reason where no launch was found.
    """

    grid: tuple[Expression, ...] = ()
    block: tuple[Expression, ...] = ()
    shared: Expression | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    from_source: bool = False
    assumed_block: bool = False
    fixed_block: bool = False
    host_sizes: tuple[DimSpec, ...] = ()
    """Sizes that only the launch has: ``rows`` blocks for a kernel without a parameter for the number of rows."""


def resolve_launch(context: KernelContext, roles: ArgumentRoles) -> ResolvedLaunch:
    """Return the launch of one instance."""
    configured = context.spec.launch
    if configured is not None and configured.grid is not None and configured.block is not None:
        return ResolvedLaunch(configured.grid, configured.block, configured.shared or parse(0))
    found = _from_source(context, roles) or _thread_per_element(context, roles)
    if found is None:
        problem = "the launch is unknown: no <<<grid, block>>> in the file is integer arithmetic over its sizes"
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
    dims: tuple[DimSpec, ...], grid: tuple[Expression, ...], ragged: Container[str] = ()
) -> tuple[DimSpec, ...]:
    """Restrict sizes to those the host code supports: a grid of ``n / 256`` blocks needs multiples of 256.

    For launches in host code only; a grid in gpuemu.toml is deliberate. Sizes of ``ragged`` are not restricted by the
    only axis of a grid.
    """
    ragged = ragged if sum(constant(axis) != 1 for axis in grid) == 1 else ()
    steps: dict[str, int] = {}
    for expression in grid:
        for node in walk(expression):
            if isinstance(node, Binary) and node.operator == "//":
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


def _from_source(context: KernelContext, roles: ArgumentRoles) -> ResolvedLaunch | None:
    """Translate the first launch in host code that is integer arithmetic over this kernel's sizes."""
    arguments = tuple(context.bindings.values())
    launches = [launch for launch in context.source.launches if launch.kernel == context.declaration.name]
    launches.sort(key=lambda launch: launch.template_args != arguments)
    for launch in launches:
        # The members of a struct have no argument each.
        alike = len(launch.arguments) == len(roles.args) and all(arg.member is None for arg in roles.args)
        if launch.grid and launch.block and alike:
            found = _LaunchTranslation(launch, context, roles).result()
            if found is not None:
                return found
    return None


class _LaunchTranslation:
    """Translation of one launch in host code to expressions over dims.

    ``_sizes`` maps names of the host function to dims: those passed to the kernel's size parameters, and those found
    to be sizes on the way.
    """

    def __init__(self, launch: LaunchSite, context: KernelContext, roles: ArgumentRoles) -> None:
        self._context = context
        self._roles = roles
        self._sizes = {
            text: f"({arg.value})"
            for text, arg in zip(launch.arguments, roles.args, strict=True)
            if isinstance(arg, ScalarArg) and isinstance(arg.value, Expression) and _NAME.match(text)
        }
        self._launch = self._with_named_sizes(launch)
        self._definitions = {**context.source.constants, **self._launch.locals, **context.bindings}

    def result(self) -> ResolvedLaunch | None:
        launch, notes = self._launch, []
        block = [self._translate(text) for text in launch.block]
        assumed = block == [None] and self._is_open_block(launch.block[0])
        if assumed:
            self._sizes[launch.block[0]] = str(_DEFAULT_BLOCK)
            block = [str(_DEFAULT_BLOCK)]
            notes.append(f"{launch.block[0]} = {_DEFAULT_BLOCK}")
        if None in block:
            return None
        self._bind_block_members([text for text in block if text is not None])
        grid = [self._translate(text) for text in launch.grid]
        host_sizes = self._host_sizes() if None in grid and self._roles.inferred else []
        if host_sizes:
            scope = Scope({**self._sizes, **{name: name for name in host_sizes}}, self._definitions)
            grid = [translate(text, scope) for text in launch.grid]
            notes.append(f"{', '.join(host_sizes)}: any")
        shared = self._translate(launch.shared) if launch.shared else "0"
        if None in grid or shared is None:
            return None
        file = f"{launch.path.rsplit('/', 1)[-1]} " if launch.path is not None else ""
        try:
            return ResolvedLaunch(
                tuple(parse(text) for text in grid if text is not None),
                tuple(parse(text) for text in block if text is not None),
                parse(shared),
                (*notes, f"launch of {file}line {launch.range.start.line + 1}"),
                from_source=True,
                assumed_block=assumed,
                fixed_block=assumed and not _may_use_block_size(self._context),
                host_sizes=tuple(DimSpec(name) for name in host_sizes),
            )
        except ExpressionError:
            return None

    def _translate(self, text: str) -> str | None:
        return translate(text, Scope(self._sizes, self._definitions))

    def _with_named_sizes(self, launch: LaunchSite) -> LaunchSite:
        """Replace ``x.numel()`` by a size's name where the host also passes it to the kernel as that size."""
        for text, arg in zip(launch.arguments, self._roles.args, strict=True):
            given = text.strip()
            is_size = isinstance(arg, ScalarArg) and isinstance(arg.value, Expression)
            if not isinstance(arg, ScalarArg) or not is_size or not _CALL_OR_MEMBER.search(given):
                continue
            pattern = re.compile(rf"(?<![\w.]){re.escape(given)}(?!\w)")
            name = f"_size_{arg.param}"
            self._sizes[name] = f"({arg.value})"
            launch = replace(
                launch,
                grid=tuple(pattern.sub(name, part) for part in launch.grid),
                shared=pattern.sub(name, launch.shared) if launch.shared else launch.shared,
                locals={local: pattern.sub(name, value) for local, value in launch.locals.items()},
            )
        return launch

    def _is_open_block(self, text: str) -> bool:
        """Whether the block size is a parameter of the host function, so that callers may pass any sensible size."""
        if _uses_several_axes(self._context) or not _NAME.match(text) or text in self._definitions:
            return False
        # Dynamic shared memory of a fixed size fits one block size only.
        has_shared = self._context.declaration.name in self._context.source.dynamic_shared
        return not has_shared or _depends(self._launch.shared or "", text, self._definitions)

    def _bind_block_members(self, block: list[str]) -> None:
        """Define ``block.x`` for the grid's expressions: a member of a ``dim3`` there is one of the block."""
        texts = [*self._launch.grid, self._launch.shared or ""]
        for text in (*texts, *(self._definitions.get(text, "") for text in texts)):
            for base, axis in _MEMBER.findall(text):
                member = f"{base}.{axis}"
                if member not in self._sizes and member not in self._definitions and "grid" not in base.lower():
                    index = "xyz".index(axis)
                    self._sizes[member] = block[index] if index < len(block) else "1"

    def _host_sizes(self) -> list[str]:
        """Return the sizes in the grid that are not passed to the kernel; each becomes a dim."""
        found: list[str] = []
        for text in self._launch.grid:
            self._collect_host_sizes(text, found, _MAX_DEPTH)
        taken = {dim.name for dim in self._roles.dims} | {arg.param for arg in self._roles.args}
        return found if len(found) <= _MAX_HOST_SIZES and not taken & set(found) else []

    def _collect_host_sizes(self, text: str, found: list[str], depth: int) -> None:
        if depth == 0 or self._translate(text) is not None:
            return
        for name in _IDENTIFIER.findall(text):
            if name in self._sizes or name in found or self._translate(name) is not None:
                continue
            before = len(found)
            if name in self._definitions:
                self._collect_host_sizes(self._definitions[name], found, depth - 1)
            if len(found) == before and name not in _KEYWORDS:
                found.append(name)


def _thread_per_element(context: KernelContext, roles: ArgumentRoles) -> ResolvedLaunch | None:
    """Return a launch with one thread per element, for a kernel with one size, one axis and no dynamic shared memory.

    The grid has one block where the kernel never reads its block index, and one thread per block where it never reads
    its thread index.
    """
    declaration = context.declaration
    if not roles.flat or declaration.name in context.source.dynamic_shared or _uses_several_axes(context):
        return None
    size = next(
        str(arg.value) for arg in roles.args if isinstance(arg, ScalarArg) and isinstance(arg.value, Expression)
    )
    code = context.code
    any_block = _may_use_block_size(context)
    literal = None if code is None or any_block else code.block_stride if code.reads_thread_index else 1
    block = literal or min(_DEFAULT_BLOCK, declaration.max_threads or _DEFAULT_BLOCK)
    blocks = (
        "1" if code is not None and not code.reads_block_index else f"ceil_div({size}, {block})" if block > 1 else size
    )
    return ResolvedLaunch(
        (parse(blocks),),
        (parse(block),),
        parse(0),
        (f"grid = {blocks}", f"block = {block}"),
        assumed_block=True,
        fixed_block=not any_block and literal is None and declaration.max_threads is None,
    )


def _may_use_block_size(context: KernelContext) -> bool:
    """Return whether a kernel reads the size of its block; if not, it is written for one."""
    return context.code is None or context.code.reads_block_size


def _uses_several_axes(context: KernelContext) -> bool:
    """Return whether a kernel uses more than one axis of its launch."""
    return context.code is not None and context.code.uses_several_axes


def _depends(text: str, name: str, definitions: Mapping[str, str], depth: int = _MAX_DEPTH) -> bool:
    """Whether the value of an expression depends on a name, directly or through definitions."""
    words = set(_WORD.findall(text))
    return name in words or (
        depth > 0
        and any(_depends(definitions[word], name, definitions, depth - 1) for word in words & set(definitions))
    )
