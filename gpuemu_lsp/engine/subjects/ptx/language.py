"""PTX as a language of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu_lsp.engine.source.ptx_source import SUFFIX
from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.plan.model import Plan
    from gpuemu_lsp.engine.project.model import KernelSpec
    from gpuemu_lsp.engine.source.model import SourceFile
    from gpuemu_lsp.engine.source.python.model import PythonSource


class Ptx(Language):
    """PTX, in files of its own: assembled by ptxas where there is one, with one code for all cases."""

    name = "ptx"
    suffixes = frozenset({SUFFIX})
    kernel_word = ".entry"

    def plans(
        self, spec: KernelSpec, registered: bool, source: SourceFile, module: PythonSource | None
    ) -> tuple[Plan, ...]:
        """Return the plans from gpuemu.toml, or from the parameters that the code shows."""
        from gpuemu_lsp.engine.plan.resolve import resolve

        return resolve(spec, source).plans

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Parse and assemble the file of the kernel, and resolve the kernel's plans."""
        from gpuemu_lsp.engine.subjects.ptx.preparation import prepare_ptx

        return prepare_ptx(source)
