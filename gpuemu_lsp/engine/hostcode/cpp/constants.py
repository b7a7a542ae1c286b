"""Constant expressions of C++."""

from __future__ import annotations

from collections.abc import Mapping

from gpuemu_lsp.engine.hostcode import calls, statements  # noqa: F401  # they register what each kind of node does
from gpuemu_lsp.engine.hostcode.cpp.declarations import program_of
from gpuemu_lsp.engine.hostcode.interpreter import evaluate
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable


def constant_of(code: str, names: Mapping[str, str]) -> int | None:
    """Return the value of an integer constant expression; None for any other code.

    ``names`` are constants and types, as written.
    """
    program = program_of((), MacroTable(()), names)
    run = Execution(program)
    value = run.integer(evaluate(run, program.expression(code)))
    return None if value is None else value.constant
