"""The statements of a module that a kernel needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def slice_of(tree: ast.Module, entry: str) -> ast.Module:
    """Return a module with the definition of ``entry`` and what it refers to, at their lines.

    What else a module executes when it is imported, such as a benchmark, or an import of a package that only its tests
    need, does not concern the kernel.
    """
    # A name may be bound several times, in the branches of a condition for instance.
    binding: dict[str, list[int]] = {}
    for index, node in enumerate(tree.body):
        for name in _bound(node):
            binding.setdefault(name, []).append(index)
    wanted: set[int] = set()
    needed: set[str] = set()
    pending = [entry]
    while pending:
        name = pending.pop()
        if name in needed:
            continue
        needed.add(name)
        for index in binding.get(name, ()):
            if index not in wanted:
                wanted.add(index)
                node = tree.body[index]
                if not isinstance(node, ast.Import | ast.ImportFrom):
                    pending += _read(node)
    unbound = needed - set(binding)
    body = [
        _only(node, needed)
        for index, node in enumerate(tree.body)
        if index in wanted or _is_future(node) or (unbound and _is_star(node))
    ]
    return ast.Module(body, [])


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of the module binds."""
    match node:
        case ast.FunctionDef(name) | ast.ClassDef(name):
            yield name
        case ast.Import(names) | ast.ImportFrom(_, names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.If() | ast.Try() | ast.With():
            for inner in ast.iter_child_nodes(node):
                if isinstance(inner, ast.stmt):
                    yield from _bound(inner)
                elif isinstance(inner, ast.ExceptHandler):
                    for statement in inner.body:
                        yield from _bound(statement)
        case _:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    yield inner.id


def _read(node: ast.stmt) -> list[str]:
    return [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]


def _only(node: ast.stmt, needed: set[str]) -> ast.stmt:
    """Return an import of the needed names alone; any other statement as it is."""
    if not isinstance(node, ast.Import | ast.ImportFrom) or _is_future(node) or _is_star(node):
        return node
    names = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in needed]
    if isinstance(node, ast.Import):
        return ast.copy_location(ast.Import(names), node)
    return ast.copy_location(ast.ImportFrom(node.module, names, node.level), node)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_star(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
