"""The answers to a program's messages: each request is passed to a part of the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuemu_lsp.engine.device.errors import status_of
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.runtime.call_sites import CallSite, call_site
from gpuemu_lsp.engine.runtime.device import EmulatedDevice
from gpuemu_lsp.engine.runtime.findings import launch_text
from gpuemu_lsp.engine.runtime.launches.kernels import ProgramLaunch
from gpuemu_lsp.engine.runtime.memory.library_words import contents_number
from gpuemu_lsp.engine.runtime.observers.launch import LaunchResult
from gpuemu_lsp.engine.runtime.protocol import messages
from gpuemu_lsp.engine.runtime.protocol.calls import FreeCall, MemoryKind, RejectedCallKind
from gpuemu_lsp.engine.runtime.protocol.messages import Acknowledged, Answer, Message

_INVALID_VALUE = 1
_LAUNCH_FAILURE = 719
"""Values of ``cudaError_t``."""

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class _RejectedLaunch:
    """A launch that was rejected, and the reason. ``returned``: the call returned the error."""

    text: str
    reason: str
    site: CallSite | None
    returned: bool


def _launch_error(result: LaunchResult) -> int:
    """Return what a GPU reports of a launch: the error of the first event that ends one, 0 if it came to its end."""
    if result.completed or result.outcome is None:
        return 0
    errors = (status_of(event.rule, event.cause) for event in result.outcome.events)
    return next((error for error in errors if error is not None), _LAUNCH_FAILURE)


class Answers:
    """Answers the messages of one program with a device.

    ``repeats_unseen`` allows the program's library not to send launches that are proved to do nothing.
    """

    def __init__(self, device: EmulatedDevice, *, repeats_unseen: bool) -> None:
        self._device = device
        self._repeats_unseen = repeats_unseen
        self.library_calls = 0
        self._skips_launches = False
        self._unchecked: list[_RejectedLaunch] = []
        self._followed = 0
        """How many of them other launches have followed: who asks for the error now may take it for theirs."""
        self._table: dict[type[Message], Callable[..., Answer]] = {}
        self._add(messages.LoadModule, self._load_module)
        self._add(messages.FindKernel, self._find_kernel)
        self._add(messages.FindVariable, self._find_variable)
        self._add(messages.Allocate, self._allocate)
        self._add(messages.AllocateAgain, self._allocate_again)
        self._add(messages.Free, self._free)
        self._add(messages.DropMemory, self._drop_memory)
        self._add(messages.FindKind, self._find_kind)
        self._add(messages.Reset, self._reset)
        self._add(messages.Copy, self._copy)
        self._add(messages.AccessByHost, self._access_by_host)
        self._add(messages.LaunchKernel, self._launch)
        self._add(messages.SkipLaunches, self._skip_launches)
        self._add(messages.RejectedLaunch, self._rejected_launch)
        self._add(messages.RejectedCall, self._rejected_call)
        self._add(messages.ErrorsChecked, self._errors_checked)
        self._add(messages.ExecuteOperator, self._execute_operator)
        self._add(messages.Multiply, self._multiply)
        self._add(messages.EncodeTensorMap, self._encode_tensor_map)
        self._add(messages.Unsupported, self._unsupported)
        self._add(messages.CaptureLost, self._capture_lost)
        self._add(messages.CreateStream, self._create_stream)
        self._add(messages.RecordEvent, self._record_event)
        self._add(messages.WaitForEvent, self._wait_for_event)
        self._add(messages.Synchronize, self._synchronize)
        self._add(messages.Query, self._query)

    def _add(self, kind: type[R], answer: Callable[[R], Answer]) -> None:
        self._table[kind] = answer

    def answer(self, request: Message) -> Answer:
        """Carry out a request; return its answer.

        Raises
        ------
        MessageError
            If it names what is not there, as the library does not.
        PtxError
            If it is a module that cannot be read.
        """
        answer = self._table[type(request)](request)
        memory = self._device.memory
        repeats = self._repeats_unseen and self._device.order.single
        memory.words.set_contents(memory.generation if repeats else None)
        return answer

    def end(self, *, leaks: bool) -> None:
        """Add the findings of the program's end: rejected launches that it did not check for, and leaks."""
        for launch in self._unchecked:
            # Whether the program looks at what the call returns is not known.
            how = "fails, which the call returns" if launch.returned else "fails and the program does not check for it"
            self._report_rejected(launch, how)
        if leaks:
            for allocation in self._device.allocator.not_freed:
                message = f"{allocation.size} bytes are never freed"
                self._device.findings.host("api/leak", message, allocation.site, None)

    def _report_rejected(self, launch: _RejectedLaunch, how: str) -> None:
        severity = Severity.INFORMATION if launch.returned else None
        message = f"{launch.text} {how}: {launch.reason}"
        self._device.findings.host("api/failed-launch", message, launch.site, None, severity=severity)

    def count_unseen(self) -> None:
        """Count, when the program has ended, what its library did without a message."""
        words = self._device.memory.words
        self._device.counts.add_repeats(words.repeats)
        self.library_calls += words.library_calls

    # ---- Modules

    def _load_module(self, request: messages.LoadModule) -> Answer:
        self._device.modules.load(request.module, request.ptx.split("\0"))
        return Acknowledged()

    def _find_kernel(self, request: messages.FindKernel) -> Answer:
        entry = self._device.modules.find_kernel(request.module, request.name)
        if entry is None:
            return messages.KernelFound(0)
        number, kernel = entry
        return messages.KernelFound(
            kernel=number,
            parameter_bytes=kernel.parameter_bytes,
            shared_bytes=kernel.static_shared_bytes,
            local_bytes=kernel.local_bytes,
            most_threads=kernel.most_threads,
            cluster=kernel.cluster,
            parameters=tuple(messages.ParameterPlace(one.offset, one.size) for one in kernel.parameters),
        )

    def _find_variable(self, request: messages.FindVariable) -> Answer:
        allocation = self._device.modules.variable(request.module, request.name)
        return messages.VariableFound(*(0, 0) if allocation is None else (allocation.address, allocation.size))

    # ---- Memory

    def _allocate(self, request: messages.Allocate) -> Answer:
        allocator = self._device.allocator
        allocation = None
        if request.size:
            allocation = allocator.allocate(request.size, request.kind, call_site(request.calls))
        return messages.Allocated(allocation.address if allocation else 0, allocator.left, allocator.limit)

    def _allocate_again(self, request: messages.AllocateAgain) -> Answer:
        self._device.memory.allocate_again(request.address)
        return Acknowledged()

    def _free(self, request: messages.Free) -> Answer:
        site = call_site(request.calls)
        freed = self._device.allocator.free(request.address, request.call, request.stream, site)
        return messages.Freed(0 if freed else _INVALID_VALUE)

    def _drop_memory(self, request: messages.DropMemory) -> Answer:
        site = call_site(request.calls)
        self._device.allocator.free(request.address, FreeCall.IN_STREAM_ORDER, request.stream, site)
        return messages.Unanswered()

    def _find_kind(self, request: messages.FindKind) -> Answer:
        allocation = self._device.memory.find(request.address)
        if allocation is None or not allocation.live:
            return messages.KindFound(allocated=False, kind=MemoryKind.DEVICE)
        return messages.KindFound(allocated=True, kind=allocation.kind)

    def _reset(self, request: messages.Reset) -> Answer:
        self._device.allocator.reset(call_site(request.calls))
        return Acknowledged()

    def _copy(self, request: messages.Copy) -> Answer:
        if self._device.followed:
            return messages.Copied(error=0, holds=True)
        copied = self._device.copies.copy(request.copy, call_site(request.calls))
        return copied if copied.error else replace(copied, watched=self._device.shared.watched())

    def _access_by_host(self, request: messages.AccessByHost) -> Answer:
        self._device.shared.access(request.address, call_site(request.calls), is_write=request.is_write)
        return Acknowledged()

    # ---- Launches and library calls

    def _launch(self, request: messages.LaunchKernel) -> Answer:
        if self._skips_launches:
            if self._device.followed:
                self._device.follow(request.launch, call_site(request.calls))
            return messages.Launched(error=0, contents=0, watched=self._device.shared.watched())
        self._followed = len(self._unchecked)
        result = self._device.launch(request.launch, call_site(request.calls))
        return messages.Launched(
            error=_launch_error(result),
            contents=contents_number(self._device.memory.generation) if result.proved else 0,
            watched=self._device.shared.watched(),
        )

    def _skip_launches(self, request: messages.SkipLaunches) -> Answer:
        self._skips_launches = request.skip
        self._device.findings.paused = self._skips_launches
        self._device.set_followed(request.skip and request.follow)
        return Acknowledged()

    def _rejected_launch(self, request: messages.RejectedLaunch) -> Answer:
        self._device.counts.add_rejected()
        text = "a launch"
        if request.kernel:
            kernel, _ = self._device.modules.kernel(request.kernel)
            text = launch_text(ProgramLaunch(kernel, request.grid, request.block, 0, b"", None))
        site = call_site(request.calls)
        self._followed = len(self._unchecked)
        self._unchecked.append(_RejectedLaunch(text, request.reason, site, request.returned))
        return Acknowledged()

    def _errors_checked(self, request: messages.ErrorsChecked) -> Answer:
        del request
        for launch in self._unchecked[: self._followed]:
            if not launch.returned:
                self._report_rejected(launch, "fails and the program asks for the error only after a later launch")
        self._unchecked, self._followed = [], 0
        return Acknowledged()

    def _execute_operator(self, request: messages.ExecuteOperator) -> Answer:
        executed = self._device.operators.execute(request, call_site(request.calls))
        return replace(executed, watched=self._device.shared.watched())

    def _multiply(self, request: messages.Multiply) -> Answer:
        self.library_calls += 1
        return self._device.products.multiply(request.product, call_site(request.calls))

    def _encode_tensor_map(self, request: messages.EncodeTensorMap) -> Answer:
        return self._device.tensor_maps.encode(request.map, call_site(request.calls))

    def _rejected_call(self, request: messages.RejectedCall) -> Answer:
        rule = "api/invalid-copy" if request.kind is RejectedCallKind.COPY else "api/invalid-free"
        self._device.findings.host(rule, request.reason, call_site(request.calls), None)
        return Acknowledged()

    def _unsupported(self, request: messages.Unsupported) -> Answer:
        text = f"{request.what} is not implemented: the call fails"
        self._device.findings.host("api/unsupported", text, call_site(request.calls), None)
        return Acknowledged()

    def _capture_lost(self, request: messages.CaptureLost) -> Answer:
        text = f"the capture makes no graph, which the call returns: {request.reason}"
        site = call_site(request.calls)
        self._device.findings.host("api/failed-launch", text, site, None, severity=Severity.INFORMATION)
        return Acknowledged()

    # ---- Streams

    def _create_stream(self, request: messages.CreateStream) -> Answer:
        self._device.create_stream(request.stream, request.flags)
        return Acknowledged()

    def _record_event(self, request: messages.RecordEvent) -> Answer:
        self._device.order.record(request.event, request.stream)
        return Acknowledged()

    def _wait_for_event(self, request: messages.WaitForEvent) -> Answer:
        self._device.order.wait(request.stream, request.event)
        return Acknowledged()

    def _synchronize(self, request: messages.Synchronize) -> Answer:
        self._device.order.synchronize(request.scope, request.number)
        return messages.Synchronized(ended=True, watched=self._device.shared.watched())

    def _query(self, request: messages.Query) -> Answer:
        ended = self._device.order.query(request.scope, request.number)
        return messages.Synchronized(ended=ended, watched=self._device.shared.watched() if ended else ())
