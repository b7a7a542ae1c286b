"""What a process of Python has under ``gpuemu run`` so that its packages use our runtime in place of NVIDIA's.

It owns what all packages that launch kernels share: they find our driver by its name, and the CUDA runtime of
``cuda.bindings`` is ours; lines of Python are reported, but for those of the packages. What is replaced in one package
beyond that is in a package of its own: :mod:`..torch_device`, :mod:`..triton_launches`, :mod:`..cute_launches`. The
modules run in the program's process: they import nothing of the engine.

- :mod:`.language`: name, package and environment of a language, for the command that starts a program
- :mod:`.runtime_library`: our runtime in this process, and the lines that it reports
- :mod:`.cuda_bindings`: the CUDA runtime of ``cuda.bindings``
"""

from typing import Final

TOOLKIT_VARIABLE: Final = "GPUEMU_TOOLKIT"
"""Environment variable with the folder of the toolkit whose libraries the process uses."""

ARCHITECTURE_VARIABLE: Final = "GPUEMU_ARCHITECTURE"
"""Environment variable with the device's architecture as a number, such as 90, until code for a later one is loaded."""

MULTIPROCESSORS_VARIABLE: Final = "GPUEMU_MULTIPROCESSORS"
"""Environment variable with how many multiprocessors programs see, which is how many blocks some of them launch."""

DRIVER: Final = "libcuda.so.1"
"""Name of the driver's library, which programs load when they run."""
