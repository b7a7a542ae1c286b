"""Source lines of the program's calls, from the return addresses that our library sends."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.runtime.protocol.records import CallStack, frames_of
from gpuemu_lsp.engine.runtime.shim import LIBRARY

_GENERATED = ("cudafe1.stub.c", "cuda_runtime.h", "device_functions", "crt/", ".fatbin.c")
"""Parts of paths of files that nvcc writes or includes around a launch."""

VENDOR = "/nvidia/cu13/"
"""Part of the paths of CUDA's own headers, Thrust and CUB included."""

_STUB = "__device_stub_"
"""Begin of a stub's name, before the mangled name of its kernel."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of the program, 1-based; ``path`` is absolute."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.path).name}:{self.line}"


@lru_cache(maxsize=4096)
def call_site(stack: CallStack, kernel: str | None = None) -> CallSite | None:
    """Return the innermost line of the program's own sources, None if the program has no line table.

    ``kernel`` is the mangled name of a kernel that is launched: the host function of that name, which nvcc writes, and
    its stub have the line of the kernel and not of the launch. Only where there is no other line it is one of CUDA's
    headers, as of what Thrust allocates.
    """
    stub, header = "", None
    for frame in frames_of(stack):
        binary = os.fsdecode(frame.path)
        if LIBRARY in binary:
            continue
        for function, site in _lines(binary, frame.offset):
            if _STUB in function:
                stub = function
            elif site is not None and function != kernel and f"{_STUB}{function}" not in stub:
                if VENDOR not in site.path:
                    return site
                header = header or site
    return header


@lru_cache(maxsize=4096)
def _lines(binary: str, offset: int) -> list[tuple[str, CallSite | None]]:
    """Return the function at an offset, and those that it is inlined into: mangled names, and the line in each."""
    tool = shutil.which("addr2line")
    if tool is None:
        return []
    command = [tool, "-f", "-i", "-e", binary, hex(offset)]
    said = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout.splitlines()
    return [(function, _site(place)) for function, place in zip(said[::2], said[1::2], strict=False)]


def _site(place: str) -> CallSite | None:
    path, _, line = place.split(" (")[0].strip().rpartition(":")
    # Of the C library paths are relative.
    if not line.isdigit() or line == "0" or not path.startswith("/") or any(part in path for part in _GENERATED):
        return None
    return CallSite(path, int(line))
