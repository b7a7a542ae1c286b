"""HIP C++ as a language of the engine."""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.source.headers.hip import SUFFIX
from gpuemu_lsp.engine.subjects.cuda.language import Cuda
from gpuemu_lsp.engine.subjects.language import PreparedKernel, SourceRequest


class Hip(Cuda):
    """HIP C++: compiled as CUDA C++ is, for a device with warps of 32 lanes."""

    name = "hip"
    suffixes = frozenset({SUFFIX})
    program_suffixes = suffixes
    remark = "HIP, for warps of 32 lanes"

    def may_occur(self, text: str) -> bool:
        """Return False: HIP code in strings of a ``.py`` is not read."""
        return False

    def occurs(self, source: object) -> bool:
        """Return False, for the same reason."""
        return False

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Compile the file of the kernel as CUDA's are; what only AMD's GPUs have is not an error of the program."""
        from gpuemu_lsp.engine.subjects.hip.amd_only import not_errors

        prepared = super().prepare(source)
        return replace(prepared, findings=not_errors(prepared.findings, source))
