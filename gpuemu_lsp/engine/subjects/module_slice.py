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
        for name in _bound(node) if not _is_of_scripts(node) else ():
            binding.setdefault(name, []).append(index)
    assigned = {name for node in tree.body for name in _assigned(node)}
    for index, node in enumerate(tree.body):
        for name in _changed(node) if not _is_of_scripts(node) else ():
            # What is called on a module or a class, such as a seed that is set, does not make the value of a name.
            if name in assigned:
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
                    pending += sorted(_free(node))
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


def _assigned(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement of the module assigns a value to."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        for inner in ast.iter_child_nodes(node):
            yield from _assigned(inner)


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield the names whose value a statement of the module changes in place: ``a.append(x)``, ``a["b"] = x``."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
            return
        case ast.Expr(ast.Call(ast.Attribute(target))):
            yield from _base(target)
        case ast.Subscript(target, ctx=ast.Store() | ast.Del()) | ast.Attribute(target, ctx=ast.Store() | ast.Del()):
            yield from _base(target)
    for inner in ast.iter_child_nodes(node):
        yield from _changed(inner)


def _base(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _is_of_scripts(node: ast.stmt) -> bool:
    """Return whether a statement is executed only where the file is run as a script."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__")


def _free(node: ast.AST) -> set[str]:
    """Return the names that a statement reads from the module: those of its functions without their variables."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        own = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else set[str]()
        return own.union(*map(_free, ast.iter_child_nodes(node)))
    arguments = node.args
    outside: list[ast.AST | None] = [*arguments.defaults, *arguments.kw_defaults]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    bound = {one.arg for one in every if one is not None}
    outside += [one.annotation for one in every if one is not None]
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    if not isinstance(node, ast.Lambda):
        outside += [*node.decorator_list, node.returns]
    own, pending = set[str](), list[ast.AST](body)
    for one in pending:
        if isinstance(one, ast.Global):
            own |= {*one.names}
        elif isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
            bound.add(one.id)
        elif isinstance(one, ast.FunctionDef):
            bound.add(one.name)
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(one)
    inner = set[str]().union(*map(_free, body))
    return own | (inner - bound) | set[str]().union(*(_free(one) for one in outside if one is not None))


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
