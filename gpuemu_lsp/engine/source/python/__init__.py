"""Static reading of a ``.py`` file: kernels of Triton and pyptx, CUDA code in strings. Nothing is run or imported.

``model``
    The records: :class:`~gpuemu_lsp.engine.source.python.model.PythonSource` and its parts.
``syntax``
    tree-sitter's tree of a module, its calls and functions.
``module_scope``
    What the names of a module stand for.
``source_files``, ``mapped_text``
    Text that was put together from string literals, each character with its place in the ``.py``.
``constants``, ``placeholders``, ``external_text``, ``strings``
    Evaluation of string expressions: literals, concatenation, methods of strings, templates, files.
``cuda_calls``
    The calls that compile CUDA code: CuPy's ``RawKernel`` and ``RawModule``, PyTorch's ``load_inline`` and ``load``,
    PyCUDA's ``SourceModule``.
``model_pair``
    A PyTorch model next to its CUDA version, as in KernelBench.
``triton_kernels``
    Functions with ``@triton.jit`` and their launches.
``pyptx_kernels``
    Functions with ``@pyptx.kernel``, and the functions that build them.
``launching_kernels``
    Functions with the decorators of CuTe DSL and Warp.

``reader`` puts them together for one file.
"""

from gpuemu_lsp.engine.source.python.launching_kernels import may_have_launching
from gpuemu_lsp.engine.source.python.pyptx_kernels import may_have_pyptx
from gpuemu_lsp.engine.source.python.reader import (
    may_have_cuda,
    may_have_kernels,
    module_scope,
    read_model_pair,
    read_python,
    read_variable,
)

__all__ = [
    "may_have_cuda",
    "may_have_kernels",
    "may_have_launching",
    "may_have_pyptx",
    "module_scope",
    "read_model_pair",
    "read_python",
    "read_variable",
]
