"""Ops, which are functions in Python, as a language of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.findings import Json, Place, Range
from gpuemu_lsp.engine.project.model import PointerSpec
from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.execution import Executor
    from gpuemu_lsp.engine.plan.model import Plan
    from gpuemu_lsp.engine.project.model import KernelSpec
    from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
    from gpuemu_lsp.engine.source.python.model import PythonSource


class Ops(Language):
    """Functions of a library, which ``[[ops]]`` registers: imported, and called in the worker of the check."""

    name = "ops"
    imports_module = True
    calls_function = True

    def executor(self) -> Executor:
        """Return the executor for calls."""
        from gpuemu_lsp.engine.subjects.model import PythonExecutor

        return PythonExecutor()

    def declaration(self, spec: KernelSpec, text: str, module: PythonSource | None) -> KernelDecl | None:
        """Return the function in its file, else the entry of an op whose source is gpuemu.toml."""
        from gpuemu_lsp.engine.source.model import KernelDecl
        from gpuemu_lsp.engine.subjects.ops.preparation import definition_of

        assert spec.op is not None
        place = definition_of(spec, spec.op, text) or spec.places.get("name")
        if place is None or place.path != spec.source:
            return None
        return KernelDecl(spec.name, spec.name, (), (), place.range, place.range)

    def plans(
        self, spec: KernelSpec, registered: bool, source: SourceFile, module: PythonSource | None
    ) -> tuple[Plan, ...]:
        """Return the plans without the outputs that only the reference shows."""
        from gpuemu_lsp.engine.subjects.ops.plans import plan_op

        return plan_op(spec, Place(spec.source, Range.of(0, 0, 0, 1))).plans

    def origin(self, spec: KernelSpec) -> Mapping[str, Json]:
        """Return the package of the op with its version, if it is not of the project, and its keyword arguments."""
        from gpuemu_lsp.engine.subjects.ops.preparation import library_of

        assert spec.op is not None
        package = library_of(spec.op)
        library: dict[str, Json] = {}
        if package is not None:
            library = {"library": package[0], "library_version": package[1]}
        scalars = {name: arg.value for name, arg in (spec.args or {}).items() if not isinstance(arg, PointerSpec)}
        given = {**scalars, **spec.op.kwargs}
        return {**library, "kwargs": {name: str(given[name]) for name in sorted(given)}}

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Import the function, and plan its outputs as the entry or the reference says."""
        from gpuemu_lsp.engine.subjects.ops.preparation import prepare_op

        return prepare_op(source)
