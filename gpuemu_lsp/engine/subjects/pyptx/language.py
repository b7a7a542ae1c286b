"""pyptx as a language of the engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.findings import Finding
    from gpuemu_lsp.engine.source.python.model import PythonSource


class Pyptx(Language):
    """pyptx: the module is imported, and the kernel's function is traced again for other sizes."""

    name = "pyptx"
    imports_module = True
    identified_by_tokens = True

    def kernel_names(self, source: PythonSource) -> Collection[str]:
        """Return the names of the module's ``@pyptx.kernel`` functions, and of the functions that build them."""
        return {name for kernel in source.pyptx for name in (kernel.name, kernel.entry)}

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Import the module, resolve the plan, and trace its first case."""
        from gpuemu_lsp.engine.subjects.pyptx.preparation import prepare_pyptx

        return prepare_pyptx(source)

    def claim_before_run(self, finding: Finding, text: str) -> Finding:
        """Return a finding as it is: types and sizes are those of a call in the file. A missing package is a hint."""
        from gpuemu_lsp.engine.subjects.unregistered import softened

        return softened(finding)
