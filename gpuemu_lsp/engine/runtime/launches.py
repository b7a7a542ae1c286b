"""From a launch of the program to a request of the emulator, and its results back to device memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.execution import Argument, Buffer, Dim3, Outcome, Request, Scalar, StructArgument
from gpuemu_lsp.engine.ptx.model import Function, Module
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device_memory import DeviceAllocation, DeviceMemory


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


def request_of(
    launch: ProgramLaunch, memory: DeviceMemory, seconds: float
) -> tuple[Request, dict[str, DeviceAllocation]]:
    """Return the request for a launch, and the allocations by the names of their buffers.

    Pointers become buffers by their addresses: those among the arguments, those in structs, and those in the memory
    that the launch can reach through others.
    """
    buffers = _Buffers(memory)
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
        reachable=buffers.reachable(),
    )
    return request, buffers.allocations


def freed_arguments(launch: ProgramLaunch, memory: DeviceMemory) -> tuple[DeviceAllocation, ...]:
    """Return the freed allocations that pointer arguments of a launch are in."""
    words = (launch.parameters[one.offset : one.offset + 8] for one in launch.kernel.parameters if one.size == 8)
    found = (memory.find(int.from_bytes(word, "little")) for word in words)
    return tuple(one for one in found if one is not None and not one.live)


def apply_results(outcome: Outcome, memory: DeviceMemory, allocations: dict[str, DeviceAllocation]) -> None:
    """Write what a launch stored to device memory; the stored bytes are initialised from then on."""
    for name, allocation in allocations.items():
        if name in outcome.buffers:
            memory.view(allocation)[:] = outcome.buffers[name]
        if outcome.written is not None and name in outcome.written:
            allocation.initialised |= outcome.written[name]


class _Buffers:
    """The buffers of one launch: one per allocation, and aliases of it for further pointers to the same."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._first: dict[int, str] = {}
        self._count = 0
        self.allocations: dict[str, DeviceAllocation] = {}

    def at(self, address: int) -> Buffer | None:
        """Return a buffer for a pointer, None if no live allocation is there."""
        allocation = self._memory.find(address)
        if allocation is None or not allocation.live:
            return None
        return self._buffer(allocation, address - allocation.address)

    def reachable(self) -> tuple[Buffer, ...]:
        """Return buffers for the allocations whose addresses are in the memory of those that are already used."""
        found: list[Buffer] = []
        waiting = list(self.allocations.values())
        while waiting:
            for target in self._memory.addresses_in(waiting.pop()):
                if target.address not in self._first:
                    found.append(self._buffer(target, 0))
                    waiting.append(target)
        return tuple(found)

    def _buffer(self, allocation: DeviceAllocation, offset: int) -> Buffer:
        self._count += 1
        place = f" at {allocation.site}" if allocation.site else ""
        name = f"allocation {self._count}{place}"
        first = self._first.setdefault(allocation.address, name)
        if first == name:
            self.allocations[name] = allocation
        whole = bool(allocation.initialised.all())
        return Buffer(
            name=name,
            data=self._memory.view(allocation),
            initialized=whole,
            initialized_bytes=None if whole else allocation.initialised,
            element_size=1,
            alias_of=None if first == name else first,
            pointer_offset=offset,
            host_address=allocation.address,
            # Which allocations hold addresses is not known: a kernel may store some for a later launch.
            holds_addresses=allocation.size >= 8 and first == name,
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


def changed_variables(outcome: Outcome, module: Module) -> tuple[str, ...]:
    """Return the module variables that a launch left with another value than their initialiser."""
    changed = []
    for variable in module.variables:
        after = outcome.variables.get(variable.name)
        if after is None or variable.relocations:
            continue
        before = np.zeros(after.size, np.uint8)
        if variable.init is not None:
            before[: len(variable.init)] = np.frombuffer(variable.init, np.uint8)
        if not np.array_equal(before, after):
            changed.append(variable.name)
    return tuple(changed)
