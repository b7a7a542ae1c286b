"""numba-cuda without a GPU: launches of a script or a test suite run in the emulator, under its checkers.

>>> import gpuemu.numba
>>> with gpuemu.numba.emulated() as session:
...     add[4, 256](x, y, out)  # a kernel of @cuda.jit, with NumPy arrays or arrays of cuda.to_device
>>> session.findings
()

:func:`activate` does the same for the rest of the process. numba's own compiler makes the PTX; devices, streams and
memory are numba's own objects on a driver that is the emulator.
"""

from __future__ import annotations

from gpuemu.launches import DEFAULT_ARCH, DEFAULT_SECONDS, KernelError, LaunchRecord
from gpuemu.numba.arguments import UnsupportedLaunchError
from gpuemu.numba.session import Session, activate, deactivate, emulated

__all__ = [
    "DEFAULT_ARCH",
    "DEFAULT_SECONDS",
    "KernelError",
    "LaunchRecord",
    "Session",
    "UnsupportedLaunchError",
    "activate",
    "deactivate",
    "emulated",
]
