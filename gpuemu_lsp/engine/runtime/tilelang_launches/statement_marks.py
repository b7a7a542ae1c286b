"""Marks in a lowered module of TileLang: calls around each statement that is from a line of the program.

Most statements keep their line. What TileLang makes of a product, a copy that it moves to other warps, and a statement
around which it puts a condition do not: such a part of the module is from the statement of the program that is the only
one with all its buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tilelang
from tilelang import tvm
from tilelang.ir import get_prim_func_span, get_stmt_span

from gpuemu_lsp.engine.runtime.tilelang_launches.written_code import BEGIN, END

Line = tuple[str, int]
Names = frozenset[str]

_PACKAGE = str(Path(tilelang.__file__).parent)
_LEAVES = ("BufferStore", "Evaluate")
_DESCRIPTOR = "_desc"
"""What the name of a tensor's descriptor ends with."""

_written: dict[Line, list[tuple[Line, Names]]] = {}
"""The statements of each function of the program, with the names of their buffers, by the line of the function."""


def note_statements(function: Any) -> None:
    """Remember the statements of a function of the program as it has written them."""
    start = _line(get_prim_func_span(function))
    if start is not None:
        leaves = ((_line(get_stmt_span(leaf)), _names(leaf)) for leaf in _leaves(function.body))
        _written[start] = [(line, names) for line, names in leaves if line is not None and names]


def with_marks(module: Any) -> tuple[Any, list[str]]:
    """Return a module whose functions have marks, and the files that these name by number; the module stays as it is.

    Around all is the mark of the function.
    """
    files: list[str] = []
    functions = {
        name: _Marks(function, files).function() if isinstance(function, tvm.tirx.PrimFunc) else function
        for name, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs), files


class _Marks:
    """The marks of one function."""

    def __init__(self, function: Any, files: list[str]) -> None:
        self._function = function
        self._files = files
        self._start = _line(get_prim_func_span(function))
        self._statements = _written.get(self._start, []) if self._start is not None else []
        self._buffers: Names = frozenset().union(*(names for _, names in self._statements))

    def function(self) -> Any:
        body = self._marked(self._function.body)
        return self._function.with_body(self._around(self._start, body) if self._start is not None else body)

    def _marked(self, statement: Any) -> Any:
        line = _line(get_stmt_span(statement)) if not _is_sequence(statement) else None
        if line is None and not _has_lines(statement):
            line = self._by_names(statement)
            if line is not None:
                return self._around(line, statement)
        inner = self._with_marked_parts(statement)
        return inner if line is None else self._around(line, inner)

    def _with_marked_parts(self, statement: Any) -> Any:
        tirx = tvm.tirx
        if isinstance(statement, tirx.SeqStmt):
            return tirx.SeqStmt([self._marked(part) for part in statement.seq])
        if isinstance(statement, tirx.IfThenElse):
            other = self._marked(statement.else_case) if statement.else_case is not None else None
            return tirx.IfThenElse(statement.condition, self._marked(statement.then_case), other)
        if isinstance(statement, tirx.AttrStmt):
            body = self._marked(statement.body)
            return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)
        if isinstance(statement, tirx.For):
            return tirx.For(
                statement.loop_var,
                statement.min,
                statement.extent,
                statement.kind,
                self._marked(statement.body),
                statement.thread_binding,
                statement.annotations,
                statement.step,
            )
        if isinstance(statement, tirx.While):
            return tirx.While(statement.condition, self._marked(statement.body))
        return statement

    def _by_names(self, statement: Any) -> Line | None:
        """Return the line of the only statement of the program with all buffers of a part of the module."""
        names = _names(statement) & self._buffers
        lines = {line for line, written in self._statements if names <= written} if names else set()
        return lines.pop() if len(lines) == 1 else None

    def _around(self, line: Line, statement: Any) -> Any:
        path, number = line
        if path not in self._files:
            self._files.append(path)
        begin = _call(BEGIN, self._files.index(path), number)
        return tvm.tirx.SeqStmt([begin, statement, _call(END)])


def _call(name: str, *arguments: int) -> Any:
    return tvm.tirx.Evaluate(tvm.tirx.call_extern("int32", name, *arguments))


def _line(span: Any) -> Line | None:
    """Return the line of a span in the program, None for one of TileLang itself."""
    if span is None or span.source_name.name.startswith(_PACKAGE):
        return None
    return span.source_name.name, span.line


def _is_sequence(statement: Any) -> bool:
    return isinstance(statement, tvm.tirx.SeqStmt)


def _has_lines(statement: Any) -> bool:
    return any(_line(get_stmt_span(leaf)) is not None for leaf in _leaves(statement))


def _leaves(statement: Any) -> Iterator[Any]:
    leaves: list[Any] = []

    def visit(node: Any) -> None:
        if type(node).__name__ in _LEAVES:
            leaves.append(node)

    tvm.tirx.stmt_functor.post_order_visit(statement, visit)
    yield from leaves


def _names(statement: Any) -> Names:
    """Return the names of the buffers that a statement uses, among them those of their addresses and descriptors."""
    names: set[str] = set()

    def visit(node: Any) -> None:
        buffer = getattr(node, "buffer", None)
        if buffer is not None:
            names.update((buffer.name, buffer.data.name))
        elif isinstance(node, tvm.tirx.Var) and node.dtype == "handle":
            names.add(node.name.removesuffix(_DESCRIPTOR))

    tvm.tirx.stmt_functor.post_order_visit(statement, visit)
    return frozenset(names)
