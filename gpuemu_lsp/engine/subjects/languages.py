"""The language of a kernel's source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuemu_lsp.engine.project.model import KernelSpec

if TYPE_CHECKING:
    from gpuemu_lsp.engine.source.python.model import PythonSource

CUDA: Final = "cuda"
TRITON: Final = "triton"
PYPTX: Final = "pyptx"


def language_of(spec: KernelSpec, source: PythonSource) -> str:
    """Return the language of a kernel of a ``.py``: as gpuemu.toml says, else as the file shows.

    A ``.py`` file may have kernels in Python and CUDA code in strings; then the name of the kernel decides. An op has
    none of these languages; it counts as CUDA code, which no other reader takes.
    """
    if spec.op is not None:
        return CUDA
    if spec.language is not None:
        return spec.language
    if spec.string is not None or spec.variable is not None:
        return CUDA
    wanted = spec.entry or spec.name
    if any(wanted in (kernel.name, kernel.entry) for kernel in source.pyptx):
        return PYPTX
    if any(kernel.name == wanted for kernel in source.triton):
        return TRITON
    if source.cuda:
        return CUDA
    return TRITON if source.triton else PYPTX if source.pyptx else CUDA


def is_triton(spec: KernelSpec, source: PythonSource) -> bool:
    """Return whether a kernel of a ``.py`` is a Triton function."""
    return language_of(spec, source) == TRITON


def is_pyptx(spec: KernelSpec, source: PythonSource) -> bool:
    """Return whether a kernel of a ``.py`` is one of pyptx."""
    return language_of(spec, source) == PYPTX


def language_of_text(spec: KernelSpec, text: str) -> str:
    """Return the language of a kernel of a file with that text."""
    if spec.op is not None or not spec.source.endswith(".py"):
        return CUDA
    # Most workers never read a .py, and the reader is fifteen modules.
    from gpuemu_lsp.engine.source.python import read_python

    return language_of(spec, read_python(spec.source, text))
