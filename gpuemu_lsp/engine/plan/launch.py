"""Grid, block and shared memory: from the toml, from a launch in the file, or for a flat kernel by convention."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.plan.arguments import Roles
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
from gpuemu_lsp.engine.source.model import KernelDecl, Launch, SourceFile

_DEFAULT_BLOCK = 256
_NAME = re.compile(r"^[A-Za-z_]\w*$")


@dataclass(frozen=True, slots=True)
class Geometry:
    """The launch as expressions over dims. ``notes`` say what was assumed; ``problem`` why there is none."""

    grid: tuple[Expression, ...] = ()
    block: tuple[Expression, ...] = ()
    shared: Expression | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    from_source: bool = False


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


def _from_source(decl: KernelDecl, source: SourceFile, bindings: Mapping[str, str], roles: Roles) -> Geometry | None:
    """Translate the first launch in the file that reads as arithmetic over this kernel's sizes."""
    wanted = tuple(bindings.values())
    launches = [launch for launch in source.launches if launch.kernel == decl.name]
    launches.sort(key=lambda launch: launch.template_args != wanted)
    for launch in launches:
        geometry = _translate_launch(launch, source, bindings, roles)
        if geometry is not None:
            return geometry
    return None


def _translate_launch(launch: Launch, source: SourceFile, bindings: Mapping[str, str], roles: Roles) -> Geometry | None:
    if not launch.grid or not launch.block or len(launch.arguments) != len(roles.args):
        return None
    names: dict[str, str] = {}
    for text, arg in zip(launch.arguments, roles.args, strict=True):
        if isinstance(arg, ScalarArg) and isinstance(arg.value, Expression) and _NAME.match(text):
            names[text] = f"({arg.value})"
    definitions = {**source.constants, **launch.locals, **bindings}
    notes = []
    block = [translate(text, names, definitions) for text in launch.block]
    if block == [None] and _NAME.match(launch.block[0]) and launch.block[0] not in definitions:
        # A parameter of the host function: any sensible size is a launch its author allows for.
        names[launch.block[0]] = str(_DEFAULT_BLOCK)
        block = [str(_DEFAULT_BLOCK)]
        notes.append(f"{launch.block[0]} = {_DEFAULT_BLOCK}")
    grid = [translate(text, names, definitions) for text in launch.grid]
    shared = translate(launch.shared, names, definitions) if launch.shared else "0"
    if None in grid or None in block or shared is None:
        return None
    try:
        return Geometry(
            tuple(parse(text) for text in grid if text is not None),
            tuple(parse(text) for text in block if text is not None),
            parse(shared),
            (*notes, f"launch of line {launch.range.start.line + 1}"),
            from_source=True,
        )
    except ExpressionError:
        return None


def _flat(decl: KernelDecl, source: SourceFile, roles: Roles) -> Geometry | None:
    """One thread per element, for a kernel with one size that never looks at y, z or shared memory of its own."""
    if not roles.flat or _uses_more_than_x(decl, source):
        return None
    size = next(
        str(arg.value) for arg in roles.args if isinstance(arg, ScalarArg) and isinstance(arg.value, Expression)
    )
    block = min(_DEFAULT_BLOCK, decl.max_threads or _DEFAULT_BLOCK)
    return Geometry(
        (parse(f"ceil_div({size}, {block})"),),
        (parse(block),),
        parse(0),
        (f"grid = ceil_div({size}, {block})", f"block = {block}"),
    )


def _uses_more_than_x(decl: KernelDecl, source: SourceFile) -> bool:
    lines = source.text.split("\n")[decl.range.start.line : decl.range.end.line + 1]
    text = "\n".join(lines)
    return decl.name in source.dynamic_shared or bool(
        re.search(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[yz]\b", text)
    )
