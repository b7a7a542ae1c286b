"""Kernels as numba-cuda's own compiler made them, with PTX in place of a cubin."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cuda.bindings import driver as binding
from numba.cuda.cudadrv.driver import MemoryPointer

from gpuemu.numba.arguments import UnsupportedLaunchError
from gpuemu.numba.linking import linked_ptx
from gpuemu.numba.memory import Allocation, DeviceMemory
from gpuemu_lsp.engine.execution import Bytes
from gpuemu_lsp.engine.ptx.model import Function, Module
from gpuemu_lsp.engine.ptx.parser import parse

MAX_THREADS = 1024
_FunctionAttributes = namedtuple("_FunctionAttributes", ["regs", "shared", "local", "const", "maxthreads"])


class EmulatedFunction:
    """A kernel in PTX, with the attributes of numba-cuda's function objects.

    ``handle`` and ``kernel`` are the function itself: driver functions get it back.
    """

    def __init__(self, name: str, ptx: str, memory: DeviceMemory) -> None:
        self.name, self.ptx = name, ptx
        self._variables: dict[str, Allocation] = {}
        self._contents: Mapping[str, Bytes] = {}
        self._memory = memory

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

    def get_global_symbol(self, name: str) -> tuple[Any, int]:
        """Return the memory of a global variable, which has the variable's bytes after a launch, and its size."""
        sizes = {variable.name: variable.size for variable in self.parsed.variables}
        if name not in sizes:
            raise KeyError(name)
        if name not in self._variables:
            self._variables[name] = self._memory.allocate(sizes[name], host_writes=True)
            self.set_variables(self._contents)
        pointer = binding.CUdeviceptr(self._variables[name].address)
        return MemoryPointer(None, pointer, sizes[name]), sizes[name]

    def set_variables(self, contents: Mapping[str, Bytes]) -> None:
        """Let the host see the global variables as a launch left them."""
        self._contents = contents
        for name, allocation in self._variables.items():
            allocation.data[:] = contents.get(name, 0)

    @property
    def module(self) -> EmulatedFunction:
        """Return the function's module, which is itself: there is one kernel in each."""
        return self

    initialized = True


@dataclass(frozen=True, slots=True)
class _CoreAttributes:
    max_threads_per_block: int


def functions_in(memory: DeviceMemory) -> Callable[[Any], EmulatedFunction]:
    """Return numba-cuda's ``get_cufunc``: a function of a code library, compiled once per architecture."""

    def get_cufunc(library: Any) -> EmulatedFunction:
        if library._entry_name is None:
            raise RuntimeError("Missing entry_name - are you trying to get the cufunc for a device function?")
        if any(hasattr(value, "__cuda_array_interface__") for value in library.referenced_objects.values()):
            # The PTX has their addresses as constants, which are not those of a launch.
            raise UnsupportedLaunchError("a device array of the global scope: pass it as an argument of the kernel")
        kept = library.__dict__.setdefault("_gpuemu_functions", {})
        cc = tuple(library._ensure_cc(None))
        if cc not in kept:
            kept[cc] = EmulatedFunction(library._entry_name, linked_ptx(library), memory)
        found: EmulatedFunction = kept[cc]
        return found

    return get_cufunc
