"""CUDA's runtime API for whole programs: ``gpuemu run`` and ``gpuemu nvcc``.

A program is compiled by nvcc to PTX and linked with our library in place of NVIDIA's runtime. It runs in a child
process; its allocations, copies and launches are messages to :mod:`~gpuemu_lsp.engine.runtime.program`, which executes
each launch in the emulator with all checkers.
"""
