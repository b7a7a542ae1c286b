"""Kernels of loaded modules, and their launches as a program makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.launch.setup import cluster_dims
from gpuemu_lsp.engine.execution import Dim3
from gpuemu_lsp.engine.ptx.model import Function, Module
from gpuemu_lsp.engine.ptx.slicing import module_text
from gpuemu_lsp.engine.ptx.triton_text import has_threads
from gpuemu_lsp.engine.runtime.call_sites import CallSite


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A parameter of a kernel and its place in the parameter block, in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel of a loaded module."""

    module: Module
    function: Function
    parameters: tuple[KernelParameter, ...]

    @property
    def has_threads(self) -> bool:
        """Whether it is written for threads, as in CUDA, and not for programs, as in Triton."""
        return has_threads(self.module.text)

    @property
    def parameter_bytes(self) -> int:
        """Size of the parameter block."""
        last = self.parameters[-1] if self.parameters else None
        return last.offset + last.size if last else 0

    @property
    def most_threads(self) -> int:
        """The most threads that a block may have."""
        directives = self.function.directives
        return min(math.prod(directives.get("maxntid") or directives.get("reqntid") or (1024,)), 1024)

    @property
    def static_shared_bytes(self) -> int:
        """Size of the shared variables that the kernel, or a function that it may call, declares."""
        outside = [variable for variable in self.module.variables if variable.space == "shared"]
        needed = module_text(self.module.text).needed_names([self.function.name]) if outside else frozenset()
        declared = sum(variable.size for variable in self.function.variables if variable.space == "shared")
        return declared + sum(variable.size for variable in outside if variable.name in needed)

    @property
    def local_bytes(self) -> int:
        """Size of a thread's local variables."""
        return sum(variable.size for variable in self.function.variables if variable.space == "local")

    @property
    def cluster(self) -> Dim3:
        """The blocks of the clusters that it requires, by dimension; zeros if it requires none."""
        required = self.function.directives.get("reqnctapercluster")
        return cluster_dims(required) if required else (0, 0, 0)


@dataclass(frozen=True, slots=True)
class ProgramLaunch:
    """One launch, as the program made it. ``parameters`` is the parameter block, ``cluster`` a cluster's blocks."""

    kernel: LoadedKernel
    grid: Dim3
    block: Dim3
    shared_bytes: int
    parameters: bytes
    site: CallSite | None
    cluster: Dim3 | None = None

    @property
    def integers(self) -> dict[str, int]:
        """The parameters of 32 and 64 bits as integers, by name."""
        values = ((one.name, self.parameters[one.offset : one.offset + one.size]) for one in self.kernel.parameters)
        return {name: int.from_bytes(value, "little", signed=True) for name, value in values if len(value) in (4, 8)}


def loaded_kernel(module: Module, name: str) -> LoadedKernel | None:
    """Return a kernel by its mangled name. Parameters are laid out as the PTX manual requires (section 5.1.6)."""
    function = module.functions.get(name)
    if function is None or not function.is_entry:
        return None
    parameters, offset = [], 0
    for parameter in function.params:
        alignment = parameter.alignment or min(parameter.size, 8) or 1
        offset = -(-offset // alignment) * alignment
        parameters.append(KernelParameter(parameter.name, offset, parameter.size))
        offset += parameter.size
    return LoadedKernel(module, function, tuple(parameters))
