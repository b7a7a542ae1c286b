"""The language of a kernel's source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu_lsp.engine.project.model import KernelSpec

if TYPE_CHECKING:
    from gpuemu_lsp.engine.source.python.model import PythonSource


def is_triton(spec: KernelSpec, source: PythonSource) -> bool:
    """Return whether a kernel of a ``.py`` is a Triton function: as gpuemu.toml says, else as the file shows.

    A ``.py`` file may have both Triton kernels and CUDA code in strings; then the name of the kernel decides.
    """
    if spec.op is not None:
        return False
    if spec.language is not None:
        return spec.language == "triton"
    if not source.triton or spec.string is not None or spec.variable is not None:
        return False
    return not source.cuda or any(kernel.name == (spec.entry or spec.name) for kernel in source.triton)


def is_triton_text(spec: KernelSpec, text: str) -> bool:
    """Return whether a kernel of a file with that text is a Triton function."""
    if spec.op is not None or not spec.source.endswith(".py"):
        return False
    # Most workers never read a .py, and the reader is fifteen modules.
    from gpuemu_lsp.engine.source.python import read_python

    return is_triton(spec, read_python(spec.source, text))
