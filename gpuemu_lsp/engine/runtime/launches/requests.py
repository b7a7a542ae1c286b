"""From a launch of the program to a request of the emulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator.versions.stores import Pointer, Stores
from gpuemu_lsp.engine.execution import ALL_CHECKS, Argument, Buffer, Checks, Request, Scalar, StructArgument
from gpuemu_lsp.engine.runtime.launches.kernels import KernelParameter, ProgramLaunch
from gpuemu_lsp.engine.runtime.launches.modules import ModuleVariables
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation, PendingAccess, UnorderedWrites
from gpuemu_lsp.engine.runtime.memory.device_memory import BASE, SIZE, DeviceMemory
from gpuemu_lsp.engine.source.headers.hip import MARK, WAVEFRONT

TRANSLATION_SECONDS = 240.0
"""Limit of a kernel's translation: longer than in checks, where somebody waits for a save. A kernel of a template
library has thousands of instructions, which are translated in several versions."""


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """Time limits of a launch and of its kernel's translation, in seconds, and the checks that it is made with."""

    seconds: float
    translate_seconds: float = TRANSLATION_SECONDS
    checks: Checks = ALL_CHECKS


@dataclass(frozen=True, slots=True)
class BuiltRequest:
    """A request, the allocations that its arguments point to, and the bytes that other streams may write.

    ``unordered`` is by name of the allocation. ``outside``: an argument is an address in device memory and in no
    allocation, as that of an array with 1-based indices; any array may be accessed through it.
    """

    request: Request
    allocations: tuple[DeviceAllocation, ...]
    unordered: dict[str, Sequence[PendingAccess]]
    outside: bool = False

    def pointers(self) -> Iterator[tuple[Pointer, DeviceAllocation]]:
        """Yield the pointers among the arguments, with the allocation of each."""
        by_address = {allocation.address: allocation for allocation in self.allocations}
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
        reached = {one.address: one for one in (*self.allocations, *variables.by_name.values()) if one.live}
        waiting = list(reached.values())
        while waiting:
            for target in memory.addresses_in(waiting.pop()):
                if target.address not in reached:
                    reached[target.address] = target
                    waiting.append(target)
        return tuple(reached.values())


def request_of(
    launch: ProgramLaunch,
    memory: DeviceMemory,
    variables: ModuleVariables,
    settings: LaunchSettings,
    unordered: UnorderedWrites = (),
) -> BuiltRequest:
    """Return the request for a launch.

    Pointers among the arguments and in structs become buffers by their addresses. Kernels access device memory where it
    is. Bytes that are written without an order between that and this launch, ``unordered``, are not initialised for it.
    """
    pending = {allocation.name: writes for allocation, writes in unordered}
    buffers = _Buffers(memory, pending)
    arguments = tuple(_argument(parameter, launch.parameters, buffers) for parameter in launch.kernel.parameters)
    module = launch.kernel.module
    lanes = WAVEFRONT if any(MARK in variable.name for variable in module.variables) else 32
    artifact = Artifact("", module.target, module.text, b"", {}, {}, "nvcc", wavefront=lanes)
    request = Request(
        artifact=artifact,
        entry=launch.kernel.function.name,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        cluster=launch.cluster,
        arguments=arguments,
        # The compiler of a program without threads orders what its threads do.
        checks=settings.checks if launch.kernel.has_threads else replace(settings.checks, block_races=False),
        max_steps=1 << 40,
        max_seconds=settings.seconds,
        translate_seconds=settings.translate_seconds,
        reachable=buffers.variables(variables),
        aliased=buffers.aliased,
    )
    return BuiltRequest(request, tuple(buffers.allocations.values()), pending, buffers.outside)


class _Buffers:
    """The buffers of one launch: one per allocation, and aliases of it for further pointers to the same."""

    def __init__(self, memory: DeviceMemory, pending: dict[str, Sequence[PendingAccess]]) -> None:
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
