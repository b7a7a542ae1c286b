"""CUDA C++ as a language of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.source.python.model import PythonSource


class Cuda(Language):
    """CUDA C++, in files of its own and in strings of a ``.py``: compiled by NVRTC, with one code for all cases."""

    name = "cuda"

    def occurs(self, source: PythonSource) -> bool:
        """Return whether a module has CUDA code in strings."""
        return bool(source.cuda)

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Compile the file of the kernel for each architecture, and resolve the kernel's plans."""
        from gpuemu_lsp.engine.subjects.cuda.preparation import prepare_cuda

        return prepare_cuda(source)
