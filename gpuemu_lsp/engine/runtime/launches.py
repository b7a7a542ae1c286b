"""From a launch of the program to a request of the emulator, and its results back to device memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.execution import Argument, Buffer, Dim3, Outcome, Request, Scalar, StructArgument
from gpuemu_lsp.engine.ptx.model import Function, Module
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device_memory import DeviceAllocation, DeviceMemory, MemoryKind, PendingWrite
from gpuemu_lsp.engine.runtime.messages import MessageError


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


@dataclass(frozen=True, slots=True)
class ProgramLaunch:
    """One launch, as the program made it. ``parameters`` is the parameter block."""

    kernel: LoadedKernel
    grid: Dim3
    block: Dim3
    shared_bytes: int
    parameters: bytes
    site: CallSite | None


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


@dataclass(frozen=True, slots=True)
class ModuleVariables:
    """The allocations of a module's variables, by mangled name."""

    by_name: dict[str, DeviceAllocation]


def place_variables(module: Module, memory: DeviceMemory) -> ModuleVariables:
    """Allocate the variables of a module, with their initial contents. Addresses of functions in these are left 0."""
    placed: dict[str, DeviceAllocation] = {}
    for variable in module.variables:
        if variable.space not in ("global", "const") or not variable.size:
            continue
        allocation = memory.allocate(variable.size, None, 1 << 60, MemoryKind.VARIABLE)
        if allocation is None:
            raise MessageError("there are no addresses for its variables")
        allocation.variable = variable.name
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
    """A request, the allocations by the names of their buffers, and the bytes of them that other streams may write."""

    request: Request
    allocations: dict[str, DeviceAllocation]
    unordered: dict[str, list[PendingWrite]]


def request_of(
    launch: ProgramLaunch,
    memory: DeviceMemory,
    seconds: float,
    variables: ModuleVariables,
    unordered: Callable[[DeviceAllocation], list[PendingWrite]],
) -> BuiltRequest:
    """Return the request for a launch.

    Pointers become buffers by their addresses: those among the arguments, those in structs, and those in the memory
    that the launch can reach through others. Bytes that are written without an order between that and this launch, as
    ``unordered`` says, are not initialised for it.
    """
    buffers = _Buffers(memory, unordered)
    arguments = tuple(_argument(parameter, launch.parameters, buffers) for parameter in launch.kernel.parameters)
    module = launch.kernel.module
    artifact = Artifact("", module.target, module.text, b"", {}, {}, "nvcc")
    request = Request(
        artifact=artifact,
        entry=launch.kernel.function.name,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        arguments=arguments,
        max_steps=1 << 40,
        max_seconds=seconds,
        reachable=buffers.reachable(variables),
    )
    return BuiltRequest(request, buffers.allocations, buffers.unordered)


def apply_results(
    outcome: Outcome, memory: DeviceMemory, allocations: dict[str, DeviceAllocation]
) -> dict[str, npt.NDArray[np.bool_]]:
    """Write what a launch stored to device memory; return the stored bytes, which are initialised from then on."""
    stored: dict[str, npt.NDArray[np.bool_]] = {}
    for name, mask in (outcome.written or {}).items():
        allocation = allocations.get(name)
        if allocation is None or not mask.any():
            continue
        view, after = memory.view(allocation), outcome.buffers[name]
        if not np.array_equal(view, after) or not allocation.initialised[mask].all():
            memory.generation += 1
            view[:] = after
            allocation.initialised |= mask
        stored[name] = mask
    return stored


class _Buffers:
    """The buffers of one launch: one per allocation, and aliases of it for further pointers to the same."""

    def __init__(self, memory: DeviceMemory, unordered: Callable[[DeviceAllocation], list[PendingWrite]]) -> None:
        self._memory = memory
        self._unordered = unordered
        self._first: dict[int, str] = {}
        self._count = 0
        self.allocations: dict[str, DeviceAllocation] = {}
        self.unordered: dict[str, list[PendingWrite]] = {}

    def at(self, address: int) -> Buffer | None:
        """Return a buffer for a pointer, None if no allocation is or was there."""
        allocation = self._memory.find(address)
        return None if allocation is None else self._buffer(allocation, address - allocation.address)

    def reachable(self, variables: ModuleVariables) -> tuple[Buffer, ...]:
        """Return buffers for variables, and for allocations whose addresses are in the memory of those in use."""
        found = [self._buffer(one, 0) for one in variables.by_name.values() if one.address not in self._first]
        waiting = [one for one in self.allocations.values() if one.live]
        while waiting:
            for target in self._memory.addresses_in(waiting.pop()):
                if target.address not in self._first:
                    found.append(self._buffer(target, 0))
                    if target.live:
                        waiting.append(target)
        return tuple(found)

    def _buffer(self, allocation: DeviceAllocation, offset: int) -> Buffer:
        self._count += 1
        place = f" at {allocation.site}" if allocation.site else ""
        name = f"allocation {self._count}{place}"
        first = self._first.setdefault(allocation.address, name)
        initialised = allocation.initialised
        if first == name:
            self.allocations[name] = allocation
            pending = self._unordered(allocation) if allocation.live else []
            if pending:
                self.unordered[name] = pending
                initialised = initialised.copy()
                for write in pending:
                    initialised &= ~write.mask
        whole = allocation.live and bool(initialised.all())
        return Buffer(
            name=name,
            data=self._memory.view(allocation),
            initialized=whole,
            initialized_bytes=None if whole else initialised,
            element_size=1,
            alias_of=None if first == name else first,
            pointer_offset=offset,
            host_address=allocation.address,
            # Which allocations hold addresses is not known: a kernel may store some for a later launch.
            holds_addresses=allocation.live and allocation.size >= 8 and first == name,
            variable=allocation.variable,
            freed=not allocation.live,
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
