"""CUDA C++ as a language of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.plan.model import Plan
    from gpuemu_lsp.engine.project.model import KernelSpec
    from gpuemu_lsp.engine.source.model import SourceFile
    from gpuemu_lsp.engine.source.python.model import PythonSource


class Cuda(Language):
    """CUDA C++, in files of its own and in strings of a ``.py``: compiled by NVRTC, with one code for all cases."""

    name = "cuda"
    suffixes = frozenset({".cu", ".cuh"})
    program_suffixes = frozenset({".cu"})

    def may_occur(self, text: str) -> bool:
        """Return whether a text has the name of a function that compiles strings."""
        from gpuemu_lsp.engine.source.python import may_have_cuda

        return may_have_cuda(text)

    def occurs(self, source: PythonSource) -> bool:
        """Return whether a module has CUDA code in strings."""
        return bool(source.cuda)

    def plans(
        self, spec: KernelSpec, registered: bool, source: SourceFile, module: PythonSource | None
    ) -> tuple[Plan, ...]:
        """Return the plans from gpuemu.toml, or from the launches in the text."""
        from gpuemu_lsp.engine.plan.resolve import resolve

        return resolve(spec, source).plans

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Compile the file of the kernel for each architecture, and resolve the kernel's plans."""
        from gpuemu_lsp.engine.subjects.cuda.preparation import prepare_cuda

        return prepare_cuda(source)
