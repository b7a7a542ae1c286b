"""Reading of one ``.py`` file."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuemu_lsp.engine.source.python.cuda_calls import APIS, cuda_calls, named_cuda
from gpuemu_lsp.engine.source.python.launching_kernels import launching_kernels
from gpuemu_lsp.engine.source.python.model import CudaFile, EmbeddedCuda, PythonSource, UnreadCuda
from gpuemu_lsp.engine.source.python.model_pair import ModelPair, find_model_pair
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.pyptx_kernels import may_have_pyptx, pyptx_kernels
from gpuemu_lsp.engine.source.python.source_files import SourceFiles
from gpuemu_lsp.engine.source.python.syntax import parse_module
from gpuemu_lsp.engine.source.python.triton_kernels import triton_kernels

_CUDA = re.compile(rf"\b(?:{'|'.join(APIS)})\b")
_LOAD = re.compile(r"\bcpp_extension\b")
_DEVICE_CODE = "__global__"
"""A word of CUDA code in a module that another one compiles, or that a function of another module does."""
_NAMES = (*APIS, "cpp_extension", _DEVICE_CODE)
_KERNELS = re.compile(rf"{_CUDA.pattern}|@\s*(?:triton\s*\.\s*)?(?:jit|autotune)\b")


def may_have_kernels(text: str) -> bool:
    """Return whether a ``.py`` file may have kernels. Fast: most files of a project have none and are not parsed."""
    return may_have_cuda(text) or may_have_pyptx(text) or ("triton" in text and _KERNELS.search(text) is not None)


def may_have_cuda(text: str) -> bool:
    """Return whether a ``.py`` file may have CUDA code in strings."""
    # A search for a plain text is a hundred times faster than that for an expression.
    if not any(name in text for name in _NAMES):
        return False
    return _DEVICE_CODE in text or _CUDA.search(text) is not None or _LOAD.search(text) is not None


def read_python(path: str, text: str) -> PythonSource:
    """Read the kernels of a ``.py`` file; ``path`` is absolute."""
    return _read(path, text) if may_have_cuda(text) else _read_triton(path, text)


@lru_cache(maxsize=4)
def _read_triton(path: str, text: str) -> PythonSource:
    """Read a file without CUDA code, for which no other file is read. A check asks four times."""
    scope = _scope(path, text)
    kernels, launches = triton_kernels(scope.root)
    pyptx = pyptx_kernels(scope.root) if may_have_pyptx(text) else ()
    launching = tuple(launching_kernels(scope.root, text))
    return PythonSource(path, text, (), (), kernels, launches, scope.files, pyptx=pyptx, launching=launching)


def _read(path: str, text: str) -> PythonSource:
    scope = _scope(path, text)
    calls = list(cuda_calls(scope.root, scope))
    kernels, launches = triton_kernels(scope.root)
    return PythonSource(
        path,
        text,
        tuple(call for call in calls if isinstance(call, EmbeddedCuda)),
        tuple(call for call in calls if isinstance(call, UnreadCuda)),
        kernels,
        launches,
        scope.files,
        tuple(call for call in calls if isinstance(call, CudaFile)),
        pyptx_kernels(scope.root) if may_have_pyptx(text) else (),
        tuple(launching_kernels(scope.root, text)),
    )


def read_variable(source: PythonSource, name: str) -> EmbeddedCuda | UnreadCuda | None:
    """Return the CUDA code in a variable of a module, None if the module does not determine its value."""
    scope = _scope(source.path, source.text, source.files)
    return named_cuda(name, scope)


def module_scope(path: str, text: str) -> ModuleScope:
    """Return the names of a module; ``path`` is absolute."""
    return _scope(path, text)


def _scope(path: str, text: str, files: SourceFiles | None = None) -> ModuleScope:
    data = text.encode(errors="replace")  # a document may have a lone surrogate
    files = files or SourceFiles()
    return ModuleScope(parse_module(data).root_node, path, files, files.add(path, data))


def read_model_pair(path: str, text: str) -> ModelPair | None:
    """Return the PyTorch model and its CUDA version in a module, None if it has no such pair."""
    return find_model_pair(_scope(path, text))
