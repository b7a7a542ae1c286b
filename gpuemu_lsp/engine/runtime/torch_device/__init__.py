"""PyTorch's CUDA device on our runtime, for the CPU build of PyTorch in the program's process.

It owns what stands for libc10_cuda and libtorch_cuda: a library in C++ that registers a device with PyTorch, whose
operators run PyTorch's kernels for the CPU on the bytes of the device and tell the runtime of their accesses, and what
``torch._C`` lacks in a build for the CPU. It decides nothing about memory, order or launches, and changes no file of
PyTorch's. The modules run in the program's process: they import nothing of the engine.

- ``native``: the library's sources; ``include``: headers that a build of PyTorch for the CPU lacks
- :mod:`.core_names`: what ``torch._C`` has in a build for CUDA, by name
- :mod:`.native_calls`: functions of the library
- :mod:`.build_locks`: locks of builds of extensions, which end with the process that holds them
"""

import re
from pathlib import Path
from typing import Final

LIBRARY: Final = "libtorch_cuda.so"
"""Name of the library, which extensions are linked with."""

NATIVE: Final = Path(__file__).parent / "native"
HEADERS: Final = Path(__file__).parent / "include"

_EXTENSION = re.compile(r"\b(?:cpp_extension|load_inline|CUDAExtension|load_library)\b")


def names_extension(text: str) -> bool:
    """Return whether a source in Python compiles or loads an extension of PyTorch."""
    return _EXTENSION.search(text) is not None
