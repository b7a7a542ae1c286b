"""The answers to a program's CUDA calls: allocations, copies and launches, in the order in which they arrive."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable

import numpy as np

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopReason, StopRequest
from gpuemu_lsp.engine.emulator.launch.race_shadow import shadow_planes
from gpuemu_lsp.engine.execution import ALL_CHECKS, Checks
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.parser import parse
from gpuemu_lsp.engine.runtime.allocations import Fill, KeptAccesses, LaunchAccesses, PendingAccess
from gpuemu_lsp.engine.runtime.call_sites import CallSite, call_site
from gpuemu_lsp.engine.runtime.calls.allocation_calls import AllocationCalls
from gpuemu_lsp.engine.runtime.calls.products import Products
from gpuemu_lsp.engine.runtime.calls.tensor_maps import EncodedMaps
from gpuemu_lsp.engine.runtime.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.discarded_reads import DiscardedReads
from gpuemu_lsp.engine.runtime.findings import RunFindings, launch_text
from gpuemu_lsp.engine.runtime.host_access import HostAccesses, may_signal
from gpuemu_lsp.engine.runtime.launches import (
    TRANSLATION_SECONDS,
    LoadedKernel,
    ModuleVariables,
    ProgramLaunch,
    loaded_kernel,
    place_variables,
    request_of,
    static_shared_bytes,
)
from gpuemu_lsp.engine.runtime.linking import linked_text
from gpuemu_lsp.engine.runtime.messages import Message, RuntimeCall, contents_number
from gpuemu_lsp.engine.runtime.recorder import LaunchRecorder
from gpuemu_lsp.engine.runtime.stream_order import (
    CopyDirection,
    HostWait,
    StreamOperation,
    StreamOrder,
    WaitScope,
)
from gpuemu_lsp.engine.runtime.transfers import Transfers
from gpuemu_lsp.engine.runtime.undefined_values import UndefinedValues

_INVALID_VALUE = 1
_LAUNCH_FAILURE = 719
"""Values of ``cudaError_t``."""


class RuntimeService:
    """The device of one run: its memory, streams and loaded modules, and what was found."""

    def __init__(
        self,
        program: str,
        launch_seconds: float,
        device_bytes: int,
        recorder: LaunchRecorder | None = None,
        checks: Checks = ALL_CHECKS,
    ) -> None:
        self._recorder = recorder
        self._checks = checks
        self._launch_seconds = launch_seconds
        self.remaining_seconds = math.inf
        """Time that the run has left, which a launch does not exceed."""
        self.memory_is_scarce: Callable[[], bool] = lambda: False
        self.memory = DeviceMemory(tracking=checks.contained)
        self.findings = RunFindings(program, self.memory)
        self.launches = self.completed = self.repeated = self.library_calls = 0
        self._order = StreamOrder()
        self.memory.lasting.others_write = lambda: (
            not self._order.single or any(one.of_host for one in self.memory.live)
        )
        self._host = HostAccesses(self.memory, self._order, self.findings)
        self._transfers = Transfers(self.memory, self._order, self.findings, self._host)
        self._allocations = AllocationCalls(self.memory, self._order, self._transfers, self.findings, device_bytes)
        self._products = Products(self.memory, self._order, self._transfers)
        self.stop = StopRequest()
        self._emulator = Emulator(lasting=self.memory.lasting, stop=self.stop)
        self._discarded_reads = DiscardedReads(self._emulator, self.memory)
        self._undefined_values = UndefinedValues(self._emulator, self.memory)
        self._modules: dict[int, tuple[Module, ModuleVariables]] = {}
        self._kernels: list[tuple[LoadedKernel, ModuleVariables]] = []
        self._without_effect: dict[Hashable, int] = {}
        self._kept = KeptAccesses()
        self._unchecked: list[tuple[str, CallSite | None, Severity | None]] = []
        self._unfinished: ProgramLaunch | None = None
        self._answers: dict[RuntimeCall, Callable[[Message], list[int]]] = {
            RuntimeCall.MODULE: self._module,
            RuntimeCall.FUNCTION: self._function,
            RuntimeCall.ALLOCATE: self._allocations.allocate,
            RuntimeCall.FREE: self._allocations.free,
            RuntimeCall.TRANSFER: self._transfer,
            RuntimeCall.LAUNCH: self._launch,
            RuntimeCall.VARIABLE: self._variable,
            RuntimeCall.UNSUPPORTED: self._unsupported,
            RuntimeCall.FAILED_LAUNCH: self._failed_launch,
            RuntimeCall.CHECKED: self._checked,
            RuntimeCall.STREAM: self._stream,
            RuntimeCall.EVENT: self._event,
            RuntimeCall.WAIT: self._wait,
            RuntimeCall.SYNCHRONIZE: self._synchronize,
            RuntimeCall.PRODUCT: self._product,
            RuntimeCall.HOST_ACCESS: self._host_access,
            RuntimeCall.TENSOR_MAP: EncodedMaps(self.memory, self.findings).answer,
            RuntimeCall.ALLOCATE_AGAIN: self._allocations.allocate_again,
            RuntimeCall.QUERY: self._query,
            RuntimeCall.RESET: self._allocations.reset,
            RuntimeCall.LOST_CAPTURE: self._lost_capture,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What the program met that is no error of its own, and what the findings lack."""
        return (*self._allocations.notes, *self.findings.notes)

    def answer(self, message: Message) -> list[int]:
        """Carry out a call; return the words of the answer."""
        words = self._answers[message.operation](message)
        repeats = self._order.single and self._recorder is None
        self.memory.header.set_contents(self.memory.generation if repeats else None)
        return words

    def note_stop(self, reason: StopReason) -> None:
        """Add that the launch whose answer an exception has prevented was stopped, if there is one."""
        if self._unfinished is not None:
            self.findings.stopped(self._unfinished, reason)

    def count_unseen(self) -> None:
        """Count, when the program has ended, the repeats that the shim did not make, and its library calls."""
        repeats = self.memory.header.repeats
        self.launches += repeats
        self.completed += repeats
        self.repeated += repeats
        self.library_calls += self.memory.header.library_calls

    def end(self, *, leaks: bool) -> None:
        """Add the findings of the program's end: failed launches that it did not check for, and leaks."""
        for message, site, severity in self._unchecked:
            self.findings.host("api/failed-launch", message, site, None, severity=severity)
        if leaks:
            for allocation in self._allocations.kept:
                message = f"{allocation.size} bytes are never freed"
                self.findings.host("api/leak", message, allocation.site, None)

    def _module(self, message: Message) -> list[int]:
        number = message.word()
        module = parse(linked_text(message.text().split("\0")))
        self._modules[number] = module, place_variables(module, self.memory)
        return []

    def _function(self, message: Message) -> list[int]:
        module, variables = self._modules[message.word()]
        kernel = loaded_kernel(module, message.text())
        if kernel is None:
            return [0] * 8
        self._kernels.append((kernel, variables))
        shared = static_shared_bytes(kernel)
        local = sum(one.size for one in kernel.function.variables if one.space == "local")
        bound = kernel.function.directives.get("maxntid") or kernel.function.directives.get("reqntid") or (1024,)
        most = min(int(np.prod(bound)), 1024)
        layout = [number for one in kernel.parameters for number in (one.offset, one.size)]
        return [len(self._kernels), kernel.parameter_bytes, shared, local, most, *kernel.cluster, *layout]

    def _variable(self, message: Message) -> list[int]:
        _, variables = self._modules[message.word()]
        allocation = variables.by_name.get(message.text())
        return [allocation.address, allocation.size] if allocation is not None else [0, 0]

    def _transfer(self, message: Message) -> list[int]:
        target, target_pitch, source, source_pitch = (message.word() for _ in range(4))
        width, rows, stream, waits = (message.word() for _ in range(4))
        direction, value = CopyDirection(message.word()), message.data()
        site = call_site(message.call_stack())
        operation = self._order.begin(stream)
        to = origin = None
        if target:
            to = self._transfers.bytes_at(target, width, target_pitch, rows, "writes", site)
        if source and (to is not None or not target):
            origin = self._transfers.bytes_at(source, width, source_pitch, rows, "reads", site)
        if (target and to is None) or (source and origin is None):
            return [_INVALID_VALUE]
        if not self._transfers.directed(direction, to, origin, site):
            return [_INVALID_VALUE]
        if to is not None and origin is not None and to.overlaps(origin):
            text = "the target of the copy overlaps its source, for which CUDA defines no behaviour"
            self.findings.host("api/invalid-copy", text, site, to.allocation)
        of_host = any(one is not None and one.allocation.of_host for one in (to, origin))
        ended = waits == HostWait.ALWAYS or (waits == HostWait.FOR_HOST_MEMORY and of_host)
        if origin is not None:
            text = "the call copies bytes of which none was ever written to the host"
            self._transfers.read(
                operation, origin, site, text if to is None else None, pending=to is not None and not ended
            )
        done = False
        if to is not None:
            done = bool(value) and self.memory.holds(to.allocation, to.span, value)
            partly = origin is not None and origin.allocation.missing > 0
            known = self.memory.initialised(origin.allocation, origin.span) if origin is not None and partly else None
            self._transfers.write(operation, to, site, known, changes=not done)
            if value and isinstance(to.span, slice):
                to.allocation.filled = Fill(to.span, value, self.memory.generation)
        if ended:
            self._order.synchronize(WaitScope.STREAM, stream)
        return [0, int(done), *self._host.ranges()]

    def _launch(self, message: Message) -> list[int]:
        kernel, variables = self._kernels[message.word() - 1]
        grid = (message.word(), message.word(), message.word())
        block = (message.word(), message.word(), message.word())
        shared, stream, _cooperative = message.word(), message.word(), message.word()
        cluster = (message.word(), message.word(), message.word())
        parameters, stack = message.data(), message.call_stack()
        self.launches += 1
        operation = self._order.begin(stream)
        key = (id(kernel), grid, block, shared, cluster, parameters)
        single, before = self._order.single, self.memory.generation
        unordered = [] if single else self._transfers.all_unordered(operation)
        kept = self._kept.get(key)
        repeats = self._without_effect.get(key) == before and (single or (kept is not None and kept.covers(unordered)))
        if repeats:
            self.completed += 1
            self.repeated += 1
            if self._recorder is not None:
                self._recorder.repeat(key)
            if single:
                return [0, contents_number(before), *self._host.ranges()]
        site = call_site(stack, kernel.function.name)
        launch = ProgramLaunch(kernel, grid, block, shared, parameters, site, cluster if any(cluster) else None)
        if repeats and kept is not None:
            # With streams, what comes later may conflict with this launch, and not with the earlier one.
            self._note_accesses(operation, kept, launch)
            return [0, 0, *self._host.ranges()]
        self._unfinished = launch
        remaining = max(self.remaining_seconds, 0.0)
        seconds, translating = min(self._launch_seconds, remaining), min(TRANSLATION_SECONDS, remaining)
        built = request_of(
            launch, self.memory, seconds, variables, unordered, self._checks, translate_seconds=translating
        )
        recorded = (
            self._recorder.begin(key, launch, built, self.memory, variables) if self._recorder is not None else None
        )
        if self._order.single and not built.outside:
            pointers = (*built.pointers(), *variables.by_name.items())
            self.memory.expect_launch(pointers, math.prod(grid) * math.prod(block))
        if self.memory_is_scarce():
            # Records of accesses from before this launch, which all of its own follow.
            shadow_planes().drop()
        outcome = self._emulator.run(built.request)
        discarded = self._discarded_reads.are_all(built, variables, outcome)
        undefined = self._undefined_values.event(built.request, outcome)
        events = outcome.events if undefined is None else (undefined,)
        stored = self.memory.settle(masks=not self._order.single)
        if self._recorder is not None and recorded is not None:
            self._recorder.end(recorded, outcome, self.memory)
        updated = frozenset[int]()
        if stored and not single and outcome.status in ("completed", "trapped"):
            updated = built.updated_by_atomics(self._emulator.stores(built.request), variables)
        writes = [(allocation, written, allocation.address in updated) for allocation, written in stored]
        accesses = LaunchAccesses(writes, built.allocations, unordered)
        self._note_accesses(operation, accesses, launch)
        if outcome.printed:
            sys.stdout.write(outcome.printed)
            sys.stdout.flush()
        raced = {event.location for event in outcome.events if event.rule.endswith("-race")}
        for event in events:
            # Whether a racing read finds a value is a matter of the order: the race is the cause.
            if event.rule == "memory/uninitialized-read" and event.location in raced:
                continue
            self.findings.event(event, launch, built, discarded=discarded, stopped=self.stop.reason)
        self._unfinished = None
        if outcome.status in ("completed", "trapped"):
            self.completed += 1
        else:
            self.findings.not_run(outcome, launch, self.stop.reason)
        # The same launch does the same again, unless it or the host sees something that is not device memory.
        silent = outcome.status == "completed" and not outcome.events and not outcome.printed
        if silent and before == self.memory.generation and not _reads_clock(kernel.module):
            # What the host writes to memory that it shares with the device is not seen.
            shared = any(one.of_host for one in self.memory.live)
            if not shared or not any(one.of_host for one in built.reachable(self.memory, variables)):
                self._without_effect[key] = before
                if not single:
                    self._kept.add(key, accesses, self.memory.generation)
        repeats = single and self._without_effect.get(key) == self.memory.generation
        proved = contents_number(self.memory.generation) if repeats else 0
        return [0 if outcome.status == "completed" else _LAUNCH_FAILURE, proved, *self._host.ranges()]

    def _note_accesses(self, operation: StreamOperation, accesses: LaunchAccesses, launch: ProgramLaunch) -> None:
        """Report what the stores of a launch conflict with, and note them for what comes later."""
        signals, single = may_signal(launch.kernel.module), self._order.single
        # Most launches need no text: those of a program without streams, to memory that the host cannot access.
        if accesses.stored or not single:
            name, site = launch_text(launch), launch.site
            text = f"{name} at {site}"
            for allocation in accesses.used if not single else ():
                self._transfers.use(allocation, operation, text, site)
            for allocation, written, atomic in accesses.stored:
                self._transfers.overwrites(operation, allocation, written, name, site, atomic=atomic)
                if not single or allocation.of_host:
                    write = PendingAccess(operation, written, text, site, signals, atomic=atomic)
                    allocation.add(write, self._order)
                    self._host.add(allocation, write)
        if signals:
            self._host.signal(operation)

    def _product(self, message: Message) -> list[int]:
        self.library_calls += 1
        return self._products.answer(message)

    def _failed_launch(self, message: Message) -> list[int]:
        number = message.word()
        grid = (message.word(), message.word(), message.word())
        block = (message.word(), message.word(), message.word())
        returned, reason, stack = bool(message.word()), message.text(), message.call_stack()
        self.launches += 1
        self.completed += 1
        what, name = "a launch", None
        if number:
            kernel, _ = self._kernels[number - 1]
            name = kernel.function.name
            what = launch_text(ProgramLaunch(kernel, grid, block, 0, b"", None))
        site = call_site(stack, name)
        if returned:
            # Whether the program looks at what the call returns is not known.
            self._unchecked.append((f"{what} fails, which the call returns: {reason}", site, Severity.INFORMATION))
        else:
            self._unchecked.append((f"{what} fails and the program does not check for it: {reason}", site, None))
        return [0]

    def _lost_capture(self, message: Message) -> list[int]:
        text = f"the capture makes no graph, which the call returns: {message.text()}"
        self.findings.host(
            "api/failed-launch", text, call_site(message.call_stack()), None, severity=Severity.INFORMATION
        )
        return []

    def _checked(self, message: Message) -> list[int]:
        del message
        self._unchecked.clear()
        return [0]

    def _unsupported(self, message: Message) -> list[int]:
        name, site = message.text(), call_site(message.call_stack())
        self.findings.host("api/unsupported", f"{name} is not implemented: the call fails", site, None)
        return [0]

    def _stream(self, message: Message) -> list[int]:
        self._order.create(message.word(), message.word())
        self.memory.end_direct()
        return [0]

    def _event(self, message: Message) -> list[int]:
        self._order.record(message.word(), message.word())
        return [0]

    def _wait(self, message: Message) -> list[int]:
        self._order.wait(message.word(), message.word())
        return [0]

    def _synchronize(self, message: Message) -> list[int]:
        self._order.synchronize(WaitScope(message.word()), message.word())
        return [1, *self._host.ranges()]

    def _query(self, message: Message) -> list[int]:
        ended = self._order.query(WaitScope(message.word()), message.word())
        return [1, *self._host.ranges()] if ended else [0]

    def _host_access(self, message: Message) -> list[int]:
        address, is_write = message.word(), bool(message.word())
        self._host.access(address, call_site(message.call_stack()), is_write=is_write)
        return []


def _reads_clock(module: Module) -> bool:
    return "%clock" in module.text or "%globaltimer" in module.text
