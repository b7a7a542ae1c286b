"""From a launch of the program to a request of the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator.launch.setup import cluster_dims
from gpuemu_lsp.engine.emulator.versions.stores import Pointer, Stores
from gpuemu_lsp.engine.execution import ALL_CHECKS, Argument, Buffer, Checks, Dim3, Request, Scalar, StructArgument
from gpuemu_lsp.engine.ptx.model import Function, Module
from gpuemu_lsp.engine.ptx.slicing import module_text
from gpuemu_lsp.engine.runtime.allocations import DeviceAllocation, MemoryKind, PendingAccess
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device_memory import BASE, SIZE, DeviceMemory
from gpuemu_lsp.engine.runtime.messages import MessageError

TRANSLATION_SECONDS = 240.0
"""Limit of a kernel's translation: longer than in checks, where somebody waits for a save. A kernel of a template
library has thousands of instructions, which are translated in several versions."""


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
    def parameter_bytes(self) -> int:
        """Size of the parameter block."""
        last = self.parameters[-1] if self.parameters else None
        return last.offset + last.size if last else 0

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


def static_shared_bytes(kernel: LoadedKernel) -> int:
    """Return the size of the shared variables that a kernel, or a function that it may call, declares."""
    module, function = kernel.module, kernel.function
    outside = [one for one in module.variables if one.space == "shared"]
    needed = module_text(module.text).needed_names([function.name]) if outside else frozenset()
    declared = sum(one.size for one in function.variables if one.space == "shared")
    return declared + sum(one.size for one in outside if one.name in needed)


@dataclass(frozen=True, slots=True)
class ModuleVariables:
    """The allocations of a module's variables, by mangled name."""

    by_name: dict[str, DeviceAllocation]


def place_variables(module: Module, memory: DeviceMemory) -> ModuleVariables:
    """Allocate the variables of a module, with their initial contents. Addresses of functions in these are left 0."""
    placed: dict[str, DeviceAllocation] = {}
    # Constants first: they are then in one range of addresses.
    for variable in sorted(module.variables, key=lambda one: one.space != "const"):
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
        if variable.init is not None:
            memory.view(allocation)[: len(variable.init)] = np.frombuffer(variable.init, np.uint8)
        placed[variable.name] = allocation
    for variable in module.variables:
        for offset, name, addend in variable.relocations:
            if variable.name in placed and name in placed:
                word = (placed[name].address + addend).to_bytes(8, "little")
                memory.view(placed[variable.name])[offset : offset + 8] = np.frombuffer(word, np.uint8)
    return ModuleVariables(placed)


@dataclass(frozen=True, slots=True)
class BuiltRequest:
    """A request, the allocations that its arguments point to, and the bytes that other streams may write.

    ``unordered`` is by name of the allocation. ``outside``: an argument is an address in device memory and in no
    allocation, as that of an array with 1-based indices; any array may be accessed through it.
    """

    request: Request
    allocations: tuple[DeviceAllocation, ...]
    unordered: dict[str, list[PendingAccess]]
    outside: bool = False

    def pointers(self) -> Iterator[tuple[Pointer, DeviceAllocation]]:
        """Yield the pointers among the arguments, with the allocation of each."""
        by_address = {one.address: one for one in self.allocations}
        for number, argument in enumerate(self.request.arguments):
            if isinstance(argument, Buffer):
                yield (number, 0), by_address[argument.host_address or 0]
            elif isinstance(argument, StructArgument):
                for offset, buffer in argument.pointers:
                    yield (number, offset), by_address[buffer.host_address or 0]

    def updated_by_atomics(self, stores: Stores, variables: ModuleVariables) -> frozenset[int]:
        """Return the addresses of the allocations that the launch writes by atomic operations only."""
        pointers = (*self.pointers(), *variables.by_name.items())
        atomic, plain = set[int](), set[int]()
        for pointer, allocation in pointers if not self.outside else ():
            if pointer in stores.pointers:
                (atomic if pointer in stores.atomic else plain).add(allocation.address)
        return frozenset(atomic - plain)

    def reachable(self, memory: DeviceMemory, variables: ModuleVariables) -> tuple[DeviceAllocation, ...]:
        """Return the live allocations that the launch can reach through addresses in memory, its arguments first."""
        found = {one.address: one for one in (*self.allocations, *variables.by_name.values()) if one.live}
        waiting = list(found.values())
        while waiting:
            for target in memory.addresses_in(waiting.pop()):
                if target.address not in found:
                    found[target.address] = target
                    waiting.append(target)
        return tuple(found.values())


def request_of(
    launch: ProgramLaunch,
    memory: DeviceMemory,
    seconds: float,
    variables: ModuleVariables,
    unordered: list[tuple[DeviceAllocation, list[PendingAccess]]],
    checks: Checks = ALL_CHECKS,
    *,
    translate_seconds: float = TRANSLATION_SECONDS,
) -> BuiltRequest:
    """Return the request for a launch.

    Pointers among the arguments and in structs become buffers by their addresses. Kernels access device memory where it
    is. Bytes that are written without an order between that and this launch, ``unordered``, are not initialised for it.
    """
    memory.hide(unordered)
    pending = {allocation.name: writes for allocation, writes in unordered}
    buffers = _Buffers(memory, pending)
    arguments = tuple(_argument(parameter, launch.parameters, buffers) for parameter in launch.kernel.parameters)
    module = launch.kernel.module
    artifact = Artifact("", module.target, module.text, b"", {}, {}, "nvcc")
    request = Request(
        artifact=artifact,
        entry=launch.kernel.function.name,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        cluster=launch.cluster,
        arguments=arguments,
        checks=checks,
        max_steps=1 << 40,
        max_seconds=seconds,
        translate_seconds=translate_seconds,
        reachable=buffers.variables(variables),
        aliased=buffers.aliased,
    )
    return BuiltRequest(request, tuple(buffers.allocations.values()), pending, buffers.outside)


class _Buffers:
    """The buffers of one launch: one per allocation, and aliases of it for further pointers to the same."""

    def __init__(self, memory: DeviceMemory, pending: dict[str, list[PendingAccess]]) -> None:
        self._memory = memory
        self._pending = pending
        self.allocations: dict[int, DeviceAllocation] = {}
        self.aliased = self.outside = False

    def at(self, address: int) -> Buffer | None:
        """Return a buffer for a pointer, None if no allocation is or was there."""
        allocation = self._memory.find(address)
        if allocation is None:
            # It is moved before it is used, or never used.
            self.outside |= BASE <= address < BASE + SIZE
            self.aliased |= self.outside
            return None
        first = allocation.address not in self.allocations
        self.aliased |= not first or allocation.variable is not None
        self.allocations[allocation.address] = allocation
        return self._buffer(allocation, address - allocation.address, None if first else allocation.name)

    def variables(self, variables: ModuleVariables) -> tuple[Buffer, ...]:
        """Return buffers for variables that are not arguments."""
        others = [one for one in variables.by_name.values() if one.address not in self.allocations]
        return tuple(self._buffer(one, 0, None) for one in others)

    def _buffer(self, allocation: DeviceAllocation, offset: int, alias_of: str | None) -> Buffer:
        return Buffer(
            name=allocation.name,
            data=self._memory.view(allocation),
            initialized=allocation.live and not allocation.missing and allocation.name not in self._pending,
            element_size=1,
            alias_of=alias_of,
            pointer_offset=offset,
            host_address=allocation.address,
            variable=allocation.variable,
            freed=not allocation.live,
            resident=True,
        )


def _argument(parameter: KernelParameter, block: bytes, buffers: _Buffers) -> Argument:
    raw = block[parameter.offset : parameter.offset + parameter.size]
    if parameter.size == 8:
        return buffers.at(int.from_bytes(raw, "little")) or Scalar(parameter.name, raw)
    if parameter.size > 8:
        pointers = []
        for offset in range(0, parameter.size - 7, 8):
            buffer = buffers.at(int.from_bytes(raw[offset : offset + 8], "little"))
            if buffer is not None:
                pointers.append((offset, buffer))
        if pointers:
            return StructArgument(parameter.name, raw, tuple(pointers))
    return Scalar(parameter.name, raw)
