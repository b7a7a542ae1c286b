"""Ops, which are functions in Python, as a language of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.execution import Executor


class Ops(Language):
    """Functions of a library, which ``[[ops]]`` registers: imported, and called in the worker of the check."""

    name = "ops"
    imports_module = True
    calls_function = True

    def executor(self) -> Executor:
        """Return the executor for calls."""
        from gpuemu_lsp.engine.subjects.model import PythonExecutor

        return PythonExecutor()

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Import the function, and plan its outputs as the entry or the reference says."""
        from gpuemu_lsp.engine.subjects.ops.preparation import prepare_op

        return prepare_op(source)
