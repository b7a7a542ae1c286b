"""Launches of Triton on a device that PyTorch has in the program's process: Triton's own driver, on our runtime.

Triton compiles, loads and launches as on a GPU, with its driver in C, which calls the driver API of our runtime. What
is replaced has no place on an emulated device: the assembler of machine code, and times. The package owns these
replacements, which launches in a process of ours (``gpuemu.triton``) have too.

- :mod:`.on_device`: what is replaced in Triton when the program imports it
- :mod:`.autotuners`: which configurations an autotuner runs, where times say nothing
- :mod:`.cublas`: matrix products of Triton's own binding of cuBLAS
"""
