"""Integer literals of a task that may set sizes, and its text with others in their place.

A task of a benchmark fixes its sizes by numbers in its text: names of the module (``batch_size = 128``) and numbers in
``get_inputs`` and ``get_init_inputs``. Which of them are sizes, and of what, is found by replacing them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuemu.judge.task_text import FUNCTIONS


@dataclass(frozen=True, slots=True, order=True)
class Literal:
    """An integer literal: 0-based line, columns in UTF-8 bytes, its value, and the name that it is assigned to."""

    line: int
    column: int
    end_column: int
    value: int
    name: str = ""


def size_literals(text: str) -> tuple[Literal, ...]:
    """Return the literals above 1 of the module's assignments and of the functions that make inputs, in their order.

    Raises
    ------
    SyntaxError
        If the text is not Python.
    """
    literals: set[Literal] = set()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            literals.update(_literals(statement, " = ".join(names)))
        elif isinstance(statement, ast.FunctionDef) and statement.name in FUNCTIONS:
            literals.update(_literals(statement, ""))
    return tuple(sorted(literals))


def with_values(text: str, values: Mapping[Literal, int]) -> str:
    """Return the text with other values in place of literals."""
    lines: Sequence[bytes] = text.encode().split(b"\n")
    changed = list(lines)
    for literal in sorted(values, reverse=True):  # from the end, so that columns of the rest stay right
        line = changed[literal.line]
        changed[literal.line] = line[: literal.column] + str(values[literal]).encode() + line[literal.end_column :]
    return b"\n".join(changed).decode()


def _literals(statement: ast.AST, name: str) -> set[Literal]:
    return {
        Literal(node.lineno - 1, node.col_offset, node.end_col_offset or node.col_offset, node.value, name)
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1
    }
