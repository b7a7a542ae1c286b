"""Source lines of the program's calls, from the return addresses and the line of Python that our library sends."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.runtime.inline_sources import inline_origin
from gpuemu_lsp.engine.runtime.marked_sources import marked_origin
from gpuemu_lsp.engine.runtime.protocol.records import CallStack, calls_of
from gpuemu_lsp.engine.runtime.shim import LIBRARY

_GENERATED = ("cudafe1.stub.c", "cuda_runtime.h", "device_functions", "crt/", ".fatbin.c")
"""Parts of paths of files that nvcc writes or includes around a launch."""

VENDOR = (
    "/nvidia/cu13/",
    "/torch/include/",
    "-packages/triton/",
    "/nvidia_cutlass_dsl/",
    "/hip_include/hip/",
    "-packages/warp/",
    "-packages/tilelang/",
)
"""Parts of the paths of sources that are not the program's: headers of CUDA, Thrust, CUB and PyTorch, those of ours for
HIP, Triton, CuTe DSL, and Warp."""

_STUB = "__device_stub_"
"""Part of the name of a stub. That of a template has a second one, which calls the first."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of the program, 1-based; ``path`` is absolute. ``caller`` is the line of Python that has called it."""

    path: str
    line: int
    caller: CallSite | None = None

    def __str__(self) -> str:
        return f"{os.path.basename(self.path)}:{self.line}"  # noqa: PTH119 - a path object takes longer, for each message


def is_vendor_header(path: str) -> bool:
    """Return whether a source is a header of CUDA or PyTorch, one of ours for HIP, or of Triton or CuTe DSL."""
    return any(part in path for part in VENDOR)


@lru_cache(maxsize=4096)
def call_site(stack: CallStack) -> CallSite | None:
    """Return the innermost line of the program's own sources, None if the program has no line table.

    A line of Python is that of the program where no compiled source of it is on the stack, and else its caller.
    A launch is made by a stub that nvcc writes, which the host function of the kernel's name calls: the line of that
    function is that of the kernel and not of the launch. Only where there is no other line it is one of a vendor's
    headers, as of what Thrust allocates.
    """
    line, frames = calls_of(stack)
    python = CallSite(os.fsdecode(line.path), line.number) if line.number else None
    in_stub, header = False, None
    for frame in frames:
        binary = os.fsdecode(frame.path)
        if LIBRARY in binary or (python is not None and not _has_lines(binary)):
            continue
        for function, site in _lines(binary, frame.offset):
            called_stub, in_stub = in_stub, _STUB in function
            if site is not None and not in_stub and not called_stub:
                if not is_vendor_header(site.path):
                    return site if python is None else _called(site, python)
                header = header or site
    return python or header


def source_place(path: str, line: int, caller: CallSite | None) -> tuple[str, int]:
    """Return the file and line that the user has written for a line of a source that ``caller`` has called."""
    inline = inline_origin(path, line, caller.path) if caller is not None else None
    return inline or marked_origin(path, line) or (path, line)


def _called(site: CallSite, python: CallSite) -> CallSite:
    path, line = source_place(site.path, site.line, python)
    return CallSite(path, line, caller=python)


@lru_cache(maxsize=1024)
def _has_lines(binary: str) -> bool:
    """Return whether a file of machine code has a table of lines, and is not Python itself.

    A stack of Python has many frames in large libraries without one, which ``addr2line`` would read for each.
    """
    own = any(part in binary for part in ("/libpython", "/lib-dynload/"))
    if own or os.path.realpath(binary) == os.path.realpath(sys.executable):
        return False
    try:
        with Path(binary).open("rb") as file:
            header = file.read(64)
            (table,) = struct.unpack_from("<Q", header, 0x28)
            size, count, names = struct.unpack_from("<HHH", header, 0x3A)
            file.seek(table)
            sections = file.read(size * count)
            offset, length = struct.unpack_from("<QQ", sections, names * size + 0x18)
            file.seek(offset)
            return b".debug_line" in file.read(length)
    except (OSError, struct.error):
        return False


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
