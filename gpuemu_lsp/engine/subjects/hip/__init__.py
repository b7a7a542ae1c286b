"""HIP C++ as a language of the engine: CUDA C++ through headers of our own, on a device with warps of 32 lanes.

- :mod:`.language`: the language
- :mod:`.amd_only`: what of HIP the device does not have, as reasons why a kernel was not run

Where the meaning of a program depends on wavefronts of 64 lanes, the headers refuse it
(:mod:`gpuemu_lsp.engine.source.headers.hip`).
"""
