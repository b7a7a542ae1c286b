"""gpuemu in Python programs: Triton launches run, and are checked, on a machine without a GPU.

The package is the Python interface of the engine in :mod:`gpuemu_lsp.engine`. Frameworks such as Triton and PyTorch are
imported only by the subpackage that needs them.
"""
