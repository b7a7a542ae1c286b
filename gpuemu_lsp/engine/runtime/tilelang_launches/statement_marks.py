"""Marks in a lowered module of TileLang: calls around each statement that is from a line of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tilelang
from tilelang import tvm
from tilelang.ir import get_prim_func_span, get_stmt_span

from gpuemu_lsp.engine.runtime.tilelang_launches.written_code import BEGIN, END

_PACKAGE = str(Path(tilelang.__file__).parent)
_STATEMENTS = ["tirx.BufferStore", "tirx.Evaluate", "tirx.For", "tirx.IfThenElse", "tirx.Bind", "tirx.While"]


def with_marks(module: Any) -> tuple[Any, list[str]]:
    """Return a module whose functions have marks, and the files that these name by number; the module stays as it is.

    What TileLang itself makes of a statement, such as a product, has lines of TileLang: it has no marks of its own, and
    neither has what it moves to other warps. Around all is the mark of the function.
    """
    files: list[str] = []
    functions = {name: _marked(function, files) for name, function in module.functions.items()}
    return tvm.IRModule(functions, attrs=module.attrs), files


def _marked(function: Any, files: list[str]) -> Any:
    tirx = tvm.tirx
    if not isinstance(function, tirx.PrimFunc):
        return function

    def call(name: str, *arguments: int) -> Any:
        return tirx.Evaluate(tirx.call_extern("int32", name, *arguments))

    def after(statement: Any) -> Any:
        return marked(get_stmt_span(statement), statement)

    def marked(span: Any, statement: Any) -> Any:
        if span is None or span.source_name.name.startswith(_PACKAGE):
            return None
        if span.source_name.name not in files:
            files.append(span.source_name.name)
        number = files.index(span.source_name.name)
        return tirx.SeqStmt([call(BEGIN, number, span.line), statement, call(END)])

    body = tirx.stmt_functor.ir_transform(function.body, None, after, _STATEMENTS)
    return function.with_body(marked(get_prim_func_span(function), body) or body)
