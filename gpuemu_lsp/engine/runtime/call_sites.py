"""Source lines of the program's calls, from the return addresses that our library sends."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.runtime.messages import frames_of
from gpuemu_lsp.engine.runtime.toolchain.library import LIBRARY

_GENERATED = ("cudafe1.stub.c", "cuda_runtime.h", "device_functions", "crt/", ".fatbin.c")
"""Parts of paths of files that nvcc writes or includes around a launch."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of the program, 1-based; ``path`` is absolute."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.path).name}:{self.line}"


@lru_cache(maxsize=4096)
def call_site(stack: bytes, kernel: str | None = None) -> CallSite | None:
    """Return the innermost line of the program's own sources, None if the program has no line table.

    ``kernel`` is the mangled name of a kernel that is launched: the host function of that name, which nvcc writes, and
    its stub have the line of the kernel and not of the launch.
    """
    for offset, binary in frames_of(stack):
        if LIBRARY in binary:
            continue
        function, site = _line(binary, offset)
        if site is not None and function != kernel and "__device_stub__" not in function:
            return site
    return None


@lru_cache(maxsize=4096)
def _line(binary: str, offset: int) -> tuple[str, CallSite | None]:
    """Return the mangled name of the function at an offset, and its line."""
    tool = shutil.which("addr2line")
    if tool is None:
        return "", None
    done = subprocess.run([tool, "-f", "-e", binary, hex(offset)], capture_output=True, text=True, check=False)
    function, _, rest = done.stdout.partition("\n")
    path, _, line = rest.split(" (")[0].strip().rpartition(":")
    if not line.isdigit() or line == "0" or any(part in path for part in _GENERATED):
        return function, None
    return function, CallSite(path, int(line))
