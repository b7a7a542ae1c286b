"""Launches of Warp in the program's process: its own compiler and launcher, on our runtime.

Warp's native library has NVIDIA's runtime in it, which works with NVIDIA's driver only. The wheel has the library's
sources: the part of it that calls CUDA is compiled for our runtime (:mod:`..toolchain.warp_library`), and takes the
place of the functions of that part. Its compiler, NVRTC, is Warp's own.

- :mod:`.on_device`: what is replaced in Warp when the program imports it
"""

from pathlib import Path
from typing import Final

from gpuemu_lsp.engine.runtime.python_process.language import LaunchingLanguage

LIBRARY_VARIABLE: Final = "GPUEMU_WARP_LIBRARY"
"""Environment variable with the file of the part of Warp's library that calls CUDA."""

HEADERS: Final = Path(__file__).parent / "include"
"""A header of CUDA that no wheel has, without its functions."""

LANGUAGE: Final = LaunchingLanguage(
    key="warp",
    name="Warp",
    imported="warp",
    distribution="warp-lang",
    package="warp",
    tried="1.19.",
    extra="warp",
    architecture="sm_80",
    symbol=r"_[0-9a-f]{8}_cuda_kernel_(?:forward|backward)",
)
