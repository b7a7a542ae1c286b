"""The messages of the program's runtime library: each request with its answer, declared once for both sides.

The library is compiled with the same declarations (:mod:`.cpp`). What needs no message is in a few words at the
beginning of device memory, which both sides see (:class:`SharedWords`).
"""

from __future__ import annotations

from typing import ClassVar

from gpuemu_lsp.engine.runtime.protocol.calls import (
    CopyCall,
    FreeCall,
    LaunchCall,
    MemoryKind,
    MemoryRows,
    ProductCall,
    RejectedCallKind,
    TensorMapCall,
    WaitScope,
    WatchedPages,
)
from gpuemu_lsp.engine.runtime.protocol.records import Address, CallStack, Size3, WireRecord


class Answer(WireRecord):
    """Base of the answers."""


class Acknowledged(Answer):
    """The answer that says nothing."""


class Unanswered(Answer):
    """The answer that is not sent: the library goes on without one."""


class Message(WireRecord):
    """Base of the messages to gpuemu; ``answer`` is the type of the answer."""

    answer: ClassVar[type[Answer]]

    def __init_subclass__(cls, answer: type[Answer] = Acknowledged) -> None:
        super().__init_subclass__()
        cls.answer = answer


class SharedWords(WireRecord):
    """The words at the beginning of device memory, which both sides read and write.

    ``owner`` is the process that has the connection, and ``refused`` is 1 if another process made a CUDA call.
    ``contents`` is the number of the contents of memory for which launches are proved to do nothing, 0 if none is.
    ``repeats`` counts the launches that the library has not made for that reason, and ``library_calls`` the calls of
    libraries' functions that make no launch, but products of matrices. ``total`` is the size of device memory in bytes,
    which processes without the connection read too.
    """

    owner: int
    refused: int
    contents: int
    repeats: int
    library_calls: int
    total: int


# ---- Modules


class LoadModule(Message):
    """PTX texts that are linked, with a zero byte between two; the library numbers modules."""

    module: int
    ptx: str


class ParameterPlace(WireRecord):
    """A parameter of a kernel: its place in the parameter block, in bytes."""

    offset: int
    size: int


class KernelFound(Answer):
    """A kernel: its number, 0 if there is none, sizes in bytes, most threads of a block, and the required cluster."""

    kernel: int
    parameter_bytes: int = 0
    shared_bytes: int = 0
    local_bytes: int = 0
    most_threads: int = 0
    cluster: Size3 = (0, 0, 0)
    parameters: tuple[ParameterPlace, ...] = ()


class FindKernel(Message, answer=KernelFound):
    """A kernel of a loaded module by its mangled name."""

    module: int
    name: str


class VariableFound(Answer):
    """A module variable of ``size`` bytes; its address is 0 if there is none."""

    address: Address
    size: int


class FindVariable(Message, answer=VariableFound):
    """A variable of a loaded module by its mangled name."""

    module: int
    name: str


# ---- Memory


class Allocated(Answer):
    """An allocation, 0 if it is refused, and the bytes that are left and that there are."""

    address: Address
    left: int
    total: int


class Allocate(Message, answer=Allocated):
    """An allocation. One of 0 bytes asks for the answer's sizes."""

    size: int
    kind: MemoryKind
    calls: CallStack


class AllocateAgain(Message):
    """An allocation at its earlier address, which a graph makes in each of its launches."""

    address: Address


class Freed(Answer):
    """A value of ``cudaError_t``."""

    error: int


class Free(Message, answer=Freed):
    """The end of an allocation."""

    address: Address
    call: FreeCall
    stream: int
    calls: CallStack


class DropMemory(Message, answer=Unanswered):
    """The end, in the order of a stream, of an allocation to which a framework has no reference any more."""

    address: Address
    stream: int
    calls: CallStack


class KindFound(Answer):
    """The kind of memory at an address; it means nothing if none is ``allocated``."""

    allocated: bool
    kind: MemoryKind


class FindKind(Message, answer=KindFound):
    """A question for the kind of memory at an address."""

    address: Address


class Reset(Message):
    """The end of all allocations and variables, as of ``cudaDeviceReset``."""

    calls: CallStack


class Copied(Answer):
    """A value of ``cudaError_t``; if it is 0, the library copies, unless memory ``holds`` the bytes of a fill."""

    error: int
    holds: bool = False
    watched: tuple[WatchedPages, ...] = ()


class Copy(Message, answer=Copied):
    """A copy or fill, before the library makes it."""

    copy: CopyCall
    calls: CallStack


class AccessByHost(Message):
    """An access of the host to pages that are watched."""

    address: Address
    is_write: bool
    calls: CallStack


# ---- Launches and library calls


class Launched(Answer):
    """A value of ``cudaError_t``, and the number of the contents of memory for which the launch does nothing; or 0."""

    error: int
    contents: int
    watched: tuple[WatchedPages, ...]


class LaunchKernel(Message, answer=Launched):
    """A launch of a kernel."""

    launch: LaunchCall
    calls: CallStack


class RejectedLaunch(Message):
    """A launch that a GPU rejects. ``returned``: the call returns the error. ``kernel`` is 0 if none is known."""

    kernel: int
    grid: Size3
    block: Size3
    returned: bool
    reason: str
    calls: CallStack


class RejectedCall(Message):
    """A call that the library rejects for arguments that are not of device memory; the reason is a sentence."""

    kind: RejectedCallKind
    reason: str
    calls: CallStack


class ErrorsChecked(Message):
    """The program has asked for the last error: the launches that were rejected before are checked for."""


class OperatorExecuted(Answer):
    """A value of ``cudaError_t``, and the addresses of the results, 0 for those that are refused."""

    error: int
    results: tuple[int, ...] = ()
    watched: tuple[WatchedPages, ...] = ()


class ExecuteOperator(Message, answer=OperatorExecuted):
    """An operator of a framework, which the program executes itself: what it reads and writes, in stream order.

    ``results`` are the sizes in bytes of new memory, all of which it writes.
    """

    name: str
    stream: int
    reads: tuple[MemoryRows, ...]
    writes: tuple[MemoryRows, ...]
    results: tuple[int, ...]
    calls: CallStack


class Multiplied(Answer):
    """Whether a product was made: one that is not ``supported`` was not, one that is not ``valid`` maybe in part."""

    supported: bool
    valid: bool


class Multiply(Message, answer=Multiplied):
    """A product of matrices."""

    product: ProductCall
    calls: CallStack


class TensorMapEncoded(Answer):
    """A value of ``CUresult``, and the record of the tensor map if it is 0."""

    error: int
    record: bytes


class EncodeTensorMap(Message, answer=TensorMapEncoded):
    """A tensor map."""

    map: TensorMapCall
    calls: CallStack


class SkipLaunches(Message):
    """From here on launches have no effect, and nothing is reported; with ``skip`` 0 this ends.

    What of a program's results depends on its launches is seen where they are skipped. If they are followed, the
    integer arithmetic of some threads is: allocations have no contents, copies do nothing, and 32-bit indices that
    overflow are reported. So launches of any size show these.
    """

    skip: bool
    follow: bool


class Unsupported(Message):
    """A function, or a use of one, that the library does not implement."""

    what: str
    calls: CallStack


class CaptureLost(Message):
    """A capture that makes no graph."""

    reason: str
    calls: CallStack


# ---- Streams


class CreateStream(Message):
    """A stream; the library numbers streams and events."""

    stream: int
    flags: int


class RecordEvent(Message):
    """An event that is recorded in a stream."""

    event: int
    stream: int


class WaitForEvent(Message):
    """A stream that waits for an event."""

    stream: int
    event: int


class Synchronized(Answer):
    """Whether the host has waited."""

    ended: bool
    watched: tuple[WatchedPages, ...]


class Synchronize(Message, answer=Synchronized):
    """The host waits."""

    scope: WaitScope
    number: int


class Query(Message, answer=Synchronized):
    """The host asks whether it would have to wait."""

    scope: WaitScope
    number: int


MESSAGES: tuple[type[Message], ...] = (
    *(
        LoadModule,
        FindKernel,
        FindVariable,
        Allocate,
        AllocateAgain,
        Free,
        DropMemory,
        FindKind,
        Reset,
        Copy,
        AccessByHost,
    ),
    *(
        LaunchKernel,
        SkipLaunches,
        RejectedLaunch,
        RejectedCall,
        ErrorsChecked,
        ExecuteOperator,
        Multiply,
        EncodeTensorMap,
        Unsupported,
    ),
    *(CaptureLost, CreateStream, RecordEvent, WaitForEvent, Synchronize, Query),
)
"""All requests; the operation of each is its place, from 0."""
