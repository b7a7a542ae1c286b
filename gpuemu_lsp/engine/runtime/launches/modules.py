"""The modules that a program has loaded: their variables in device memory, and their kernels by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.parser import parse
from gpuemu_lsp.engine.runtime.launches.kernels import LoadedKernel, loaded_kernel
from gpuemu_lsp.engine.runtime.launches.linking import linked_text
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.protocol.calls import MemoryKind
from gpuemu_lsp.engine.runtime.protocol.records import MessageError


@dataclass(frozen=True, slots=True)
class ModuleVariables:
    """The allocations of a module's variables, by mangled name."""

    by_name: dict[str, DeviceAllocation]


def place_variables(module: Module, memory: DeviceMemory) -> ModuleVariables:
    """Allocate the variables of a module, with their initial contents. Addresses of functions in these are left 0."""
    placed: dict[str, DeviceAllocation] = {}
    # Constants first: they are then in one range of addresses.
    for variable in sorted(module.variables, key=lambda variable: variable.space != "const"):
        if variable.space not in ("global", "const") or not variable.size:
            continue
        allocation = memory.allocate(
            variable.size,
            None,
            1 << 60,
            MemoryKind.MANAGED if variable.managed else MemoryKind.VARIABLE,
            variable=variable.name,
            read_only=variable.space == "const",
        )
        if allocation is None:
            raise MessageError("there are no addresses for its variables")
        allocation.zeros = variable.space == "const" and variable.init is None and not variable.relocations
        if variable.init is not None:
            memory.view(allocation)[: len(variable.init)] = np.frombuffer(variable.init, np.uint8)
        placed[variable.name] = allocation
    for variable in module.variables:
        for offset, name, addend in variable.relocations:
            if variable.name in placed and name in placed:
                word = (placed[name].address + addend).to_bytes(8, "little")
                memory.view(placed[variable.name])[offset : offset + 8] = np.frombuffer(word, np.uint8)
    return ModuleVariables(placed)


class LoadedModules:
    """The modules of one run by the numbers that they were loaded with, and the kernels of theirs that were asked for.

    Methods raise ``MessageError`` for a number that is not known.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._modules: dict[int, tuple[Module, ModuleVariables]] = {}
        self._kernels: list[tuple[LoadedKernel, ModuleVariables]] = []

    def load(self, number: int, texts: Sequence[str]) -> None:
        """Load PTX texts, which are linked, as the module of a number, in place of an earlier one.

        Raises
        ------
        PtxError
            If they cannot be read.
        """
        module = parse(linked_text(texts))
        self._modules[number] = module, place_variables(module, self._memory)

    def find_kernel(self, number: int, name: str) -> tuple[int, LoadedKernel] | None:
        """Return a kernel of a module by its mangled name, and a number for :meth:`kernel`; None if there is none."""
        module, variables = self._module(number)
        kernel = loaded_kernel(module, name)
        if kernel is None:
            return None
        self._kernels.append((kernel, variables))
        return len(self._kernels), kernel

    def kernel(self, number: int) -> tuple[LoadedKernel, ModuleVariables]:
        """Return a kernel, and the variables of its module."""
        if not 0 < number <= len(self._kernels):
            raise MessageError(f"there is no kernel {number}")
        return self._kernels[number - 1]

    def variable(self, number: int, name: str) -> DeviceAllocation | None:
        """Return a variable of a module by its mangled name, None if there is none."""
        return self._module(number)[1].by_name.get(name)

    def _module(self, number: int) -> tuple[Module, ModuleVariables]:
        if number not in self._modules:
            raise MessageError(f"there is no module {number}")
        return self._modules[number]
