"""Files whose names do not say whether they have kernels: headers, templates of sources and C++ (for HIP)."""

from __future__ import annotations

from typing import Final

HEADERS: Final = (".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl", ".inc")
"""How the names of files end that others include."""
_CPP: Final = (*HEADERS, ".cpp", ".cc", ".cxx", ".cu.in")
CUDA_LANGUAGES: Final = frozenset({"cuda", "cuda-cpp", "hip"})
"""How clients of a language server call CUDA C++ and HIP."""
_KERNEL: Final = "__global__"


def may_have_kernels(path: str, language: str = "") -> bool:
    """Return whether the text decides about kernels in CUDA C++, as ``language`` or the file's name allow them."""
    return path.endswith(_CPP) or language in CUDA_LANGUAGES


def mentions_kernels(text: str) -> bool:
    """Return whether a text may declare a kernel in CUDA C++; without it there is none."""
    return _KERNEL in text
