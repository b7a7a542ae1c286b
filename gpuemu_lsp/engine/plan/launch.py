"""Grid, block and shared memory: from the toml, from a launch in the file, or for a flat kernel by convention."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.plan.arguments import Roles
from gpuemu_lsp.engine.plan.asked import asks_block, asks_block_size, asks_thread, looks_at_y_or_z, written_block
from gpuemu_lsp.engine.plan.cexpr import translate
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
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec
from gpuemu_lsp.engine.source.model import KernelDecl, LaunchSite, SourceFile

_DEFAULT_BLOCK = 256
_NAME = re.compile(r"^[A-Za-z_]\w*$")
_IDENTIFIER = re.compile(r"(?<![\w.:>])[A-Za-z_]\w*(?![\w(:.<]|\s*\()")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MEMBER = re.compile(r"\b([A-Za-z_]\w*)\.([xyz])\b")
_OPAQUE = re.compile(r"[A-Za-z_]\w*\s*(?:\(|\.|->)")
_DEPTH = 12
_WORDS = frozenset({"int", "unsigned", "long", "short", "size_t", "float", "double", "dim3", "sizeof", "const", "auto"})


@dataclass(frozen=True, slots=True)
class Geometry:
    """The launch as expressions over dims. ``notes`` say what was assumed; ``problem`` why there is none."""

    grid: tuple[Expression, ...] = ()
    block: tuple[Expression, ...] = ()
    shared: Expression | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    from_source: bool = False
    assumed_block: bool = False
    fixed_block: bool = False
    extra: tuple[DimSpec, ...] = ()
    """Sizes only the launch knows: ``rows`` blocks for a kernel that is never told how many rows there are."""


def settle_launch(
    spec: KernelSpec, decl: KernelDecl, source: SourceFile, bindings: Mapping[str, str], roles: Roles
) -> Geometry:
    """Find the launch of one instance."""
    configured = spec.launch
    if configured is not None and configured.grid is not None and configured.block is not None:
        return Geometry(configured.grid, configured.block, configured.shared or parse(0))
    found = _from_source(decl, source, bindings, roles) or _flat(decl, source, roles)
    if found is None:
        return Geometry(problem="the launch cannot be told: no <<<grid, block>>> in the file can be read as sizes")
    if configured is None:
        return found
    return Geometry(
        configured.grid or found.grid,
        configured.block or found.block,
        configured.shared or found.shared,
        found.notes,
        assumed_block=found.assumed_block and configured.block is None,
        fixed_block=found.fixed_block and configured.block is None,
    )


def divisible(dims: tuple[DimSpec, ...], grid: tuple[Expression, ...]) -> tuple[DimSpec, ...]:
    """Restrict sizes to what the author's own grid allows: ``n / 256`` blocks, rounded down, mean multiples of 256.

    Only for launches read from the file; what the toml says is taken at its word.
    """
    steps: dict[str, int] = {}
    for expression in grid:
        for node in walk(expression):
            if isinstance(node, Binary) and node.operator == "//":
                step = constant(Expression(node.right, ""))
                for name in _factors(node.left) if step is not None and step > 0 else []:
                    steps[name] = math.lcm(steps.get(name, 1), step or 1)
    return tuple(
        replace(dim, multiple_of=steps[dim.name]) if 1 < steps.get(dim.name, 1) <= 1024 else dim for dim in dims
    )


def _factors(node: Node) -> list[str]:
    """Return the names of a plain product; empty when it is anything else, such as ``n + 255``."""
    if isinstance(node, Name):
        return [node.name]
    if isinstance(node, Number):
        return []
    if isinstance(node, Binary) and node.operator == "*":
        return [*_factors(node.left), *_factors(node.right)]
    return []


def _where(launch: LaunchSite) -> str:
    return f"{launch.path.rsplit('/', 1)[-1]} " if launch.path is not None else ""


def _from_source(decl: KernelDecl, source: SourceFile, bindings: Mapping[str, str], roles: Roles) -> Geometry | None:
    """Translate the first launch in the file that reads as arithmetic over this kernel's sizes."""
    wanted = tuple(bindings.values())
    launches = [launch for launch in source.launches if launch.kernel == decl.name]
    launches.sort(key=lambda launch: launch.template_args != wanted)
    for launch in launches:
        geometry = _translate_launch(launch, decl, source, bindings, roles)
        if geometry is not None:
            return geometry
    return None


def _translate_launch(
    launch: LaunchSite, decl: KernelDecl, source: SourceFile, bindings: Mapping[str, str], roles: Roles
) -> Geometry | None:
    if not launch.grid or not launch.block or len(launch.arguments) != len(roles.args):
        return None
    names: dict[str, str] = {}
    for text, arg in zip(launch.arguments, roles.args, strict=True):
        if isinstance(arg, ScalarArg) and isinstance(arg.value, Expression) and _NAME.match(text):
            names[text] = f"({arg.value})"
    launch = _with_sizes_named(launch, roles, names)
    definitions = {**source.constants, **launch.locals, **bindings}
    notes = []
    block = [translate(text, names, definitions) for text in launch.block]
    assumed = block == [None]
    if (
        assumed
        and not looks_at_y_or_z(decl, source)
        and _NAME.match(launch.block[0])
        and launch.block[0] not in definitions
        and (decl.name not in source.dynamic_shared or _depends(launch.shared or "", launch.block[0], definitions))
    ):
        # A parameter of the host function: any sensible size is a launch its author allows for.
        names[launch.block[0]] = str(_DEFAULT_BLOCK)
        block = [str(_DEFAULT_BLOCK)]
        notes.append(f"{launch.block[0]} = {_DEFAULT_BLOCK}")
    if None in block:
        return None
    _bind_members(launch, [text for text in block if text is not None], names, definitions)
    grid = [translate(text, names, definitions) for text in launch.grid]
    extra = _open_names(launch, names, definitions, roles) if None in grid and roles.inferred else []
    if extra:
        grid = [translate(text, {**names, **{name: name for name in extra}}, definitions) for text in launch.grid]
        notes.append(f"{', '.join(extra)}: any")
    shared = translate(launch.shared, names, definitions) if launch.shared else "0"
    if None in grid or shared is None:
        return None
    try:
        return Geometry(
            tuple(parse(text) for text in grid if text is not None),
            tuple(parse(text) for text in block if text is not None),
            parse(shared),
            (*notes, f"launch of {_where(launch)}line {launch.range.start.line + 1}"),
            from_source=True,
            assumed_block=assumed,
            fixed_block=assumed and not asks_block_size(decl, source),
            extra=tuple(DimSpec(name) for name in extra),
        )
    except ExpressionError:
        return None


def _with_sizes_named(launch: LaunchSite, roles: Roles, names: dict[str, str]) -> LaunchSite:
    """Put the size's name where the host computes with ``x.numel()`` and passes the same to the kernel."""
    for text, arg in zip(launch.arguments, roles.args, strict=True):
        given = text.strip()
        if not isinstance(arg, ScalarArg) or not isinstance(arg.value, Expression) or not _OPAQUE.search(given):
            continue
        pattern = re.compile(rf"(?<![\w.]){re.escape(given)}(?!\w)")
        stands = f"_size_{arg.param}"
        names[stands] = f"({arg.value})"
        launch = replace(
            launch,
            grid=tuple(pattern.sub(stands, part) for part in launch.grid),
            shared=pattern.sub(stands, launch.shared) if launch.shared else launch.shared,
            locals={name: pattern.sub(stands, value) for name, value in launch.locals.items()},
        )
    return launch


def _bind_members(launch: LaunchSite, block: list[str], names: dict[str, str], definitions: Mapping[str, str]) -> None:
    """Say what ``block.x`` is in a grid: its own ``dim3`` cannot be meant, so it is the block's."""
    texts = [*launch.grid, launch.shared or ""]
    for text in (*texts, *(definitions.get(text, "") for text in texts)):
        for base, axis in _MEMBER.findall(text):
            member = f"{base}.{axis}"
            if member not in names and member not in definitions and "grid" not in base.lower():
                index = "xyz".index(axis)
                names[member] = block[index] if index < len(block) else "1"


def _open_names(
    launch: LaunchSite, names: Mapping[str, str], definitions: Mapping[str, str], roles: Roles
) -> list[str]:
    """Return the host's own sizes in the grid, which the kernel never sees: each becomes a size to choose."""
    found: list[str] = []
    for text in launch.grid:
        _collect_open(text, names, definitions, found, _DEPTH)
    taken = {dim.name for dim in roles.dims} | {arg.param for arg in roles.args}
    return found if len(found) <= 2 and not taken & set(found) else []


def _collect_open(
    text: str, names: Mapping[str, str], definitions: Mapping[str, str], found: list[str], depth: int
) -> None:
    if depth == 0 or translate(text, names, definitions) is not None:
        return
    for name in _IDENTIFIER.findall(text):
        if name in names or name in found or translate(name, names, definitions) is not None:
            continue
        before = len(found)
        if name in definitions:
            _collect_open(definitions[name], names, definitions, found, depth - 1)
        if len(found) == before and name not in _WORDS:
            found.append(name)


def _flat(decl: KernelDecl, source: SourceFile, roles: Roles) -> Geometry | None:
    """One thread per element, for a kernel with one size that never looks at y, z or shared memory of its own."""
    if not roles.flat or decl.name in source.dynamic_shared or looks_at_y_or_z(decl, source):
        return None
    size = next(
        str(arg.value) for arg in roles.args if isinstance(arg, ScalarArg) and isinstance(arg.value, Expression)
    )
    asks = asks_block_size(decl, source)
    written = None if asks else written_block(decl, source) if asks_thread(decl, source) else 1
    block = written or min(_DEFAULT_BLOCK, decl.max_threads or _DEFAULT_BLOCK)
    blocks = "1" if not asks_block(decl, source) else f"ceil_div({size}, {block})" if block > 1 else size
    return Geometry(
        (parse(blocks),),
        (parse(block),),
        parse(0),
        (f"grid = {blocks}", f"block = {block}"),
        assumed_block=True,
        fixed_block=not asks and written is None and decl.max_threads is None,
    )


def _depends(text: str, name: str, definitions: Mapping[str, str], depth: int = _DEPTH) -> bool:
    """Say whether an expression is computed from a name: shared memory that grows with the block fits any block."""
    words = set(_WORD.findall(text))
    return name in words or (
        depth > 0
        and any(_depends(definitions[word], name, definitions, depth - 1) for word in words & set(definitions))
    )
