"""The part of a module that a task needs, where the same file has the answer."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Sequence

FUNCTIONS = ("get_inputs", "get_init_inputs")
"""What a task defines besides its model."""


def needed_text(text: str, names: Iterable[str]) -> str:
    """Return the statements of a module that names depend on, in their lines; the others are blank.

    Raises
    ------
    SyntaxError
        If the text is not Python.
    """
    statements = ast.parse(text).body
    needed = set(map(id, needed_statements(statements, names)))
    lines = text.split("\n")
    kept = [""] * len(lines)
    for statement in statements:
        if id(statement) in needed or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            decorators = getattr(statement, "decorator_list", [])
            begin = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
            end = statement.end_lineno or begin
            kept[begin - 1 : end] = lines[begin - 1 : end]
    return "\n".join(kept)


def needed_statements(statements: Sequence[ast.stmt], names: Iterable[str]) -> list[ast.stmt]:
    """Return the statements of a module that bind names, or what these use, in no order."""
    bound = {id(statement): _bound(statement) for statement in statements}
    needed, waiting = dict[int, ast.stmt](), set(names)
    while waiting:
        name = waiting.pop()
        for statement in statements:
            if id(statement) not in needed and name in bound[id(statement)]:
                needed[id(statement)] = statement
                waiting |= _used(statement)
    return list(needed.values())


def _used(statement: ast.stmt) -> set[str]:
    """Return the names of the module that a statement uses, which are not those of its parameters and variables."""
    tables = [symtable.symtable(ast.unparse(statement), "", "exec")]
    names = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        of_module = table.get_type() == "module"
        names |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (of_module or symbol.is_global())
        }
    return names


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names
