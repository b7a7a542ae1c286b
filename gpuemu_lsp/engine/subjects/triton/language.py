"""Triton as a language of the engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.findings import Finding
    from gpuemu_lsp.engine.source.python.model import PythonSource


class Triton(Language):
    """Triton: the module is imported, and the kernel is compiled again for other types, values and alignments."""

    name = "triton"
    imports_module = True
    identified_by_tokens = True

    def kernel_names(self, source: PythonSource) -> Collection[str]:
        """Return the names of the module's ``@triton.jit`` functions."""
        return [kernel.name for kernel in source.triton]

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Import the module, resolve the plans, and compile the first case of each."""
        from gpuemu_lsp.engine.subjects.triton.preparation import prepare_triton

        return prepare_triton(source)

    def claim_before_run(self, finding: Finding, text: str) -> Finding:
        """Return a finding with the claim that it has on types and sizes of which some may be assumed."""
        from gpuemu_lsp.engine.subjects.unregistered import claim_before_run

        return claim_before_run(finding, text)
