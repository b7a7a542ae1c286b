"""Triton's compiler for NVIDIA GPUs, stopped at PTX.

Triton assembles PTX to a cubin with ptxas before each first launch. The emulator runs PTX, so that stage is removed;
Triton itself needs neither a GPU nor a driver until then. Imports Triton, so only workers and programs that use Triton
already import this module.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.jit import JITCallable

_INLINE_ASM = re.compile(r"// begin inline asm\n.*?// end inline asm", re.S)
_LOC = re.compile(r"^[ \t]*\.loc\b[^\n]*", re.M)
WARP_SIZE = 32
_CACHE_KEY = JITCallable.cache_key


def _cache_key_of_file(function: Any) -> str:
    """Return Triton's cache key of a function, made different for each file.

    Triton's key has the text and the line of a function, not its file. The PTX names the file in ``.file`` directives,
    so that a copy of a function would get source locations in the file that was compiled first.
    """
    key = f"{_CACHE_KEY.fget(function)} {function.fn.__code__.co_filename}"
    return hashlib.sha256(key.encode()).hexdigest()


class PtxBackend(CUDABackend):  # type: ignore[misc]  # Triton has no type information
    """Triton's CUDA backend whose binary is the text of the PTX."""

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        """Add the stages up to PTX, and one that stands for ptxas.

        Triton reads the result of the last stage as bytes and all others as text: programs that look at
        ``kernel.asm["ptx"]`` get text, as on a GPU.
        """
        super().add_stages(stages, options, language)
        if "cubin" in stages:
            stages["cubin"] = lambda ptx, metadata: ptx.encode()

    def hash(self) -> str:
        """Return the part of Triton's cache key that identifies this compiler; no ptxas takes part."""
        return f"gpuemu-ptx-text-{self.target.arch}"


def use_ptx_backend() -> type[CUDABackend]:
    """Make Triton compile with :class:`PtxBackend`; return the class that it used before."""
    backend = backends["nvidia"]
    previous: type[CUDABackend] = backend.compiler
    restore_backend(PtxBackend)
    return previous


def restore_backend(compiler: type[CUDABackend]) -> None:
    """Make Triton compile with ``compiler``, the result of :func:`use_ptx_backend`."""
    # The record of a backend is frozen, and Triton has no public way to replace its compiler.
    object.__setattr__(backends["nvidia"], "compiler", compiler)
    JITCallable.cache_key = property(_cache_key_of_file) if issubclass(compiler, PtxBackend) else _CACHE_KEY


def target_of(arch: str) -> GPUTarget:
    """Return Triton's target for an architecture such as ``sm_80`` or ``sm_90a``."""
    return GPUTarget("cuda", int(re.sub(r"\D", "", arch)), WARP_SIZE)


def with_fixed_locations(ptx: str) -> str:
    """Return PTX in which an inline assembly statement has one source location.

    LLVM counts the lines of a statement of several lines into its ``.loc`` directives, so that the second and later
    ones name lines of the ``.py`` file that have nothing to do with it. The first one is that of the statement.
    """
    return _INLINE_ASM.sub(_with_first_location, ptx)


def _with_first_location(match: re.Match[str]) -> str:
    statement = match.group()
    first = _LOC.search(statement)
    if first is None:
        return statement
    # The lines stay, empty, so that line numbers of the PTX do not change.
    return statement[: first.end()] + _LOC.sub("", statement[first.end() :])
