"""Integer literals of a task that may set sizes, and its text with others in their place.

A task of a benchmark fixes its sizes by numbers in its text: names of the module (``batch_size = 128``) and numbers in
``get_inputs`` and ``get_init_inputs``. Which of them are sizes, and of what, is found by replacing them.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuemu.judge.task_text import FUNCTIONS, needed_statements


@dataclass(frozen=True, slots=True, order=True)
class Literal:
    """An integer literal: 0-based line, columns in UTF-8 bytes, its value, and the name that it is assigned to."""

    line: int
    column: int
    end_column: int
    value: int
    name: str = ""


def size_literals(text: str) -> tuple[Literal, ...]:
    """Return the literals above 1 of the module's assignments and of what makes inputs, in their order.

    These are the functions of a task, and the functions and classes that they use, but for modules of PyTorch.

    Raises
    ------
    SyntaxError
        If the text is not Python.
    """
    literals: set[Literal] = set()
    statements = ast.parse(text).body
    for statement in statements:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            literals.update(_literals(statement, " = ".join(names)))
    for statement in needed_statements(statements, FUNCTIONS):
        if isinstance(statement, ast.FunctionDef | ast.ClassDef) and not _is_module(statement):
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


def _is_module(statement: ast.FunctionDef | ast.ClassDef) -> bool:
    return isinstance(statement, ast.ClassDef) and any("Module" in ast.unparse(base) for base in statement.bases)


def _literals(statement: ast.AST, name: str) -> Iterator[Literal]:
    """Yield the literals in a statement; an expression of numbers, such as ``1 << 20``, is one."""
    if isinstance(statement, ast.Constant | ast.BinOp) and statement.lineno == statement.end_lineno:
        value = _value(statement)
        if value is not None:
            if value > 1:
                end = statement.end_col_offset or statement.col_offset
                yield Literal(statement.lineno - 1, statement.col_offset, end, value, name)
            return
    for node in ast.iter_child_nodes(statement):
        yield from _literals(node, name)


def _value(node: ast.expr) -> int | None:
    """Return the value of an expression of non-negative integers, None if it is something else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
        return None
    left, right = _value(node.left), _value(node.right)
    if left is None or right is None or (isinstance(node.op, ast.Pow | ast.LShift) and right > _MOST_BITS):
        return None
    return _OPERATORS[type(node.op)](left, right)


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}
_MOST_BITS = 64
