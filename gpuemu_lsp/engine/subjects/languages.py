"""The language of a kernel's source."""

from __future__ import annotations

from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source.python.model import PythonSource


def is_triton(spec: KernelSpec, source: PythonSource) -> bool:
    """Return whether a kernel of a ``.py`` is a Triton function: as gpuemu.toml says, else as the file shows.

    A ``.py`` file may have both Triton kernels and CUDA code in strings; then the name of the kernel decides.
    """
    if spec.language is not None:
        return spec.language == "triton"
    if not source.triton or spec.string is not None or spec.variable is not None:
        return False
    return not source.cuda or any(kernel.name == (spec.entry or spec.name) for kernel in source.triton)
