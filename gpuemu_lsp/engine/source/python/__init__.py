"""Static reading of a ``.py`` file: Triton kernels, and CUDA code in strings. Nothing of the file is run or imported.

``model``
    The records: :class:`~gpuemu_lsp.engine.source.python.model.PythonSource` and its parts.
``module_scope``
    tree-sitter's tree of a module, and the assignments that a name in it refers to.
``mapped_text``
    Text that was put together from string literals, each character with its place in the ``.py``.
``strings``
    Evaluation of string expressions: literals, concatenation, ``textwrap.dedent``, f-strings with constant parts.
``cuda_calls``
    The calls that compile a string: CuPy's ``RawKernel`` and ``RawModule``, PyTorch's ``load_inline``, PyCUDA's
    ``SourceModule``.
``triton_kernels``
    Functions with ``@triton.jit`` and their launches.
"""

from gpuemu_lsp.engine.source.python.reader import may_have_cuda, may_have_kernels, read_python, read_variable

__all__ = ["may_have_cuda", "may_have_kernels", "read_python", "read_variable"]
