"""Our runtime library in C++, which stands for those of NVIDIA in a program; ``include`` has headers of libraries.

It implements the API, and decides nothing about memory or launches: it sends a message. ``messages.h`` is not here: it
is generated when the library is compiled (:mod:`gpuemu_lsp.engine.runtime.protocol.cpp`).
"""

from pathlib import Path
from typing import Final

LIBRARY: Final = "gpuemu_runtime"
"""Its name."""

SOURCES: Final = Path(__file__).parent
