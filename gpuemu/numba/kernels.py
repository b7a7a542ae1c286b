"""Kernels as numba-cuda's own compiler made them, with PTX in place of a cubin."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpuemu_lsp.engine.ptx.model import Function, Module
from gpuemu_lsp.engine.ptx.parser import parse

MAX_THREADS = 1024
_FunctionAttributes = namedtuple("_FunctionAttributes", ["regs", "shared", "local", "const", "maxthreads"])


class EmulatedFunction:
    """A kernel in PTX, with the attributes of numba-cuda's function objects.

    ``handle`` and ``kernel`` are the function itself: driver functions get it back.
    """

    def __init__(self, name: str, ptx: str) -> None:
        self.name, self.ptx = name, ptx

    @property
    def handle(self) -> EmulatedFunction:
        """Return the function, which its driver functions take."""
        return self

    kernel = handle

    @cached_property
    def parsed(self) -> Module:
        """Return the typed PTX module."""
        return parse(self.ptx)

    @property
    def entry(self) -> Function:
        """Return the kernel in the PTX module."""
        return self.parsed.functions[self.name]

    @property
    def attributes(self) -> Any:
        """Return the attributes by cuda.core's names."""
        return _CoreAttributes(MAX_THREADS)

    @property
    def attrs(self) -> Any:
        """Return the attributes by numba-cuda's names. Registers are those that ptxas would assign: not known here."""
        variables = (*self.entry.variables, *self.parsed.variables)
        size = {space: sum(v.size for v in variables if v.space == space) for space in ("shared", "local", "const")}
        return _FunctionAttributes(0, size["shared"], size["local"], size["const"], MAX_THREADS)

    def set_shared_memory_carveout(self, carveout: int) -> None:
        """Accept a preference about caches."""

    def cache_config(self, **_: bool) -> None:
        """Accept a preference about caches."""

    @property
    def module(self) -> EmulatedFunction:
        """Return the function's module, which is itself: there is one kernel in each."""
        return self

    initialized = True


@dataclass(frozen=True, slots=True)
class _CoreAttributes:
    max_threads_per_block: int


def function_of(library: Any) -> EmulatedFunction:
    """Return the function of a code library of numba-cuda, compiled once."""
    kept = library.__dict__.setdefault("_gpuemu_functions", {})
    ptx = _ptx_of(library)
    if ptx not in kept:
        kept[ptx] = EmulatedFunction(library._entry_name, ptx)
    found: EmulatedFunction = kept[ptx]
    return found


def _ptx_of(library: Any) -> str:
    return str(library.get_asm_str())
