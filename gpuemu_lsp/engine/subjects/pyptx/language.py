"""pyptx as a language of the engine."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.findings import Finding
    from gpuemu_lsp.engine.project.model import KernelSpec, Project
    from gpuemu_lsp.engine.source.model import KernelDecl
    from gpuemu_lsp.engine.source.python.model import PythonSource


class Pyptx(Language):
    """pyptx: the module is imported, and the kernel's function is traced again for other sizes."""

    name = "pyptx"
    imports_module = True
    identified_by_tokens = True

    def may_occur(self, text: str) -> bool:
        """Return whether a text imports pyptx."""
        from gpuemu_lsp.engine.source.python import may_have_pyptx

        return may_have_pyptx(text)

    def kernel_names(self, source: PythonSource) -> Collection[str]:
        """Return the names of the module's ``@pyptx.kernel`` functions, and of the functions that build them."""
        return {name for kernel in source.pyptx for name in (kernel.name, kernel.entry)}

    def unregistered(
        self, source: PythonSource, taken: Container[str], project: Project | None = None
    ) -> Iterable[KernelSpec]:
        """Return the kernels of a module but those that are registered."""
        from gpuemu_lsp.engine.subjects.pyptx.plans import unregistered_pyptx

        return unregistered_pyptx(source, taken)

    def declaration(self, spec: KernelSpec, text: str, module: PythonSource | None) -> KernelDecl | None:
        """Return the decorated function."""
        from gpuemu_lsp.engine.source.model import KernelDecl
        from gpuemu_lsp.engine.subjects.pyptx.plans import choose_pyptx_kernel

        kernel = choose_pyptx_kernel(spec, module)[0] if module is not None else None
        return None if kernel is None else KernelDecl(kernel.name, kernel.name, (), (), kernel.name_range, kernel.range)

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Import the module, resolve the plan, and trace its first case."""
        from gpuemu_lsp.engine.subjects.pyptx.preparation import prepare_pyptx

        return prepare_pyptx(source)

    def claim_before_run(self, finding: Finding, text: str) -> Finding:
        """Return a finding as it is: types and sizes are those of a call in the file. A missing package is a hint."""
        from gpuemu_lsp.engine.subjects.unregistered import softened

        return softened(finding)
