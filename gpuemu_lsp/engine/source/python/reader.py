"""Reading of one ``.py`` file."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.source.python.cuda_calls import APIS, cuda_calls, named_cuda
from gpuemu_lsp.engine.source.python.model import EmbeddedCuda, PythonSource, UnreadCuda
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope, parse_module
from gpuemu_lsp.engine.source.python.triton_kernels import triton_kernels

_CUDA = re.compile(rf"\b(?:{'|'.join(APIS)})\b")
_KERNELS = re.compile(rf"{_CUDA.pattern}|@\s*(?:triton\s*\.\s*)?(?:jit|autotune)\b")


def may_have_kernels(text: str) -> bool:
    """Return whether a ``.py`` file may have kernels. Fast: most files of a project have none and are not parsed."""
    return _KERNELS.search(text) is not None


def may_have_cuda(text: str) -> bool:
    """Return whether a ``.py`` file may have CUDA code in strings."""
    return _CUDA.search(text) is not None


def read_python(path: str, text: str) -> PythonSource:
    """Read the kernels of a ``.py`` file; ``path`` is absolute."""
    root = parse_module(text.encode()).root_node
    calls = list(cuda_calls(root, ModuleScope(root)))
    kernels, launches = triton_kernels(root)
    return PythonSource(
        path,
        text,
        tuple(call for call in calls if isinstance(call, EmbeddedCuda)),
        tuple(call for call in calls if isinstance(call, UnreadCuda)),
        kernels,
        launches,
    )


def read_variable(text: str, name: str) -> EmbeddedCuda | UnreadCuda | None:
    """Return the CUDA code in a variable of a module, None if the module does not assign it exactly once."""
    return named_cuda(name, ModuleScope(parse_module(text.encode()).root_node))
