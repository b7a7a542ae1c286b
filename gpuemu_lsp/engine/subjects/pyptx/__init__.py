"""pyptx kernels: the user's module is imported in a worker, and each kernel is traced for the sizes of a case.

``language``, ``preparation``
    The language in the table of languages, and what it prepares.
``symbolic``
    Integers that know the expression they come from: shapes and grids as expressions over the dims.
``tracing``
    The PTX of one trace, with the lines of the ``.py`` that emitted the instructions.
``tensor_maps``
    The tensor maps that pyptx makes of its tensors.
``plans``
    Plans of a kernel, from gpuemu.toml and what the kernel declares. It does not import pyptx.
``errors``
    Exceptions of the user's code as findings on its lines.
``kernel``
    The subject.
"""
