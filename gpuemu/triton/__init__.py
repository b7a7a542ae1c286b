"""Triton without a GPU: launches of a script or a test suite run in the emulator, on CPU tensors, under its checkers.

>>> import gpuemu.triton
>>> with gpuemu.triton.emulated() as session:
...     add_kernel[(4,)](x, y, out, n, BLOCK=1024)  # x, y and out are CPU tensors of PyTorch, or NumPy arrays
>>> session.findings
()

:func:`activate` does the same for the rest of the process. Inside, ``device="cuda"`` of PyTorch is an
emulated GPU whose memory is that of the CPU.
"""

from __future__ import annotations

from gpuemu.launches import DEFAULT_ARCH, DEFAULT_SECONDS, KernelError, LaunchRecord
from gpuemu.triton.compilation import compile
from gpuemu.triton.session import Session, activate, deactivate, emulated

__all__ = [
    "DEFAULT_ARCH",
    "DEFAULT_SECONDS",
    "KernelError",
    "LaunchRecord",
    "Session",
    "activate",
    "compile",
    "deactivate",
    "emulated",
]
