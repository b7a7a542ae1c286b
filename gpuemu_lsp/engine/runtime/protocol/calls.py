"""The arguments of calls, as the device takes them: from a program through messages, or from another front end."""

from __future__ import annotations

from enum import IntEnum

from gpuemu_lsp.engine.runtime.protocol.records import Address, Signed, Size3, WireRecord


class MemoryKind(IntEnum):
    """Kinds of memory. Programs allocate the first three; texture and surface objects are variables without a name.

    Variables that are ``__managed__`` are managed memory. ``HEAP`` is that of device ``malloc``.
    """

    DEVICE = 0
    MANAGED = 1
    PINNED = 2
    VARIABLE = 3
    HEAP = 4


class WaitScope(IntEnum):
    """What the host waits for."""

    DEVICE = 0
    STREAM = 1
    EVENT = 2


class FreeCall(IntEnum):
    """What frees memory."""

    OF_DEVICE = 0
    OF_HOST = 1
    IN_STREAM_ORDER = 2


class RejectedCallKind(IntEnum):
    """What a call does that is rejected without a request to the device."""

    COPY = 0
    FREE = 1


class HostWait(IntEnum):
    """Whether the host waits for the end of a copy or fill.

    Calls without a stream wait, but not for what they do within device memory.
    """

    ALWAYS = 0
    NEVER = 1
    FOR_HOST_MEMORY = 2


class CopyDirection(IntEnum):
    """Values of ``cudaMemcpyKind``."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4

    @property
    def to_device(self) -> bool:
        """Whether the target is memory of the device."""
        return self in (self.HOST_TO_DEVICE, self.DEVICE_TO_DEVICE)

    @property
    def from_device(self) -> bool:
        """Whether the source is."""
        return self in (self.DEVICE_TO_HOST, self.DEVICE_TO_DEVICE)

    @property
    def text(self) -> str:
        """The direction, for messages."""
        return f"from {'device' if self.from_device else 'host'} to {'device' if self.to_device else 'host'}"


class CopyCall(WireRecord):
    """A copy or fill of ``rows`` of ``width`` bytes, which begin a pitch apart.

    An address that is not in device memory is 0. ``value`` has the bytes of an element of a fill, none for a copy.
    """

    target: Address
    target_pitch: int
    source: Address
    source_pitch: int
    width: int
    rows: int
    stream: int
    wait: HostWait
    direction: CopyDirection
    value: bytes


class LaunchCall(WireRecord):
    """A launch of a loaded kernel, by its number.

    ``cluster`` has the blocks of a cluster, zeros for none. ``parameters`` is the parameter block.
    """

    kernel: int
    grid: Size3
    block: Size3
    cluster: Size3
    shared_bytes: int
    stream: int
    parameters: bytes


class MatrixOperand(WireRecord):
    """Matrices of a batch, in columns: element type (``cudaDataType``), and distances of columns and of matrices.

    Distances are numbers of elements. ``tables`` says that ``address`` is that of the addresses of all matrices.
    """

    type: int
    ld: Signed
    stride: Signed
    tables: bool
    address: Address


class ProductCall(WireRecord):
    """``d = epilogue(alpha * op(a) op(b) + beta * c + bias)`` for each of ``count`` matrices, as cuBLAS defines it.

    ``d`` has ``m`` rows and ``n`` columns. The operations and the epilogue have the numbers of cuBLAS.
    """

    a_operation: int
    b_operation: int
    m: int
    n: int
    k: int
    count: int
    epilogue: int
    stream: int
    alpha: float
    alpha_imaginary: float
    beta: float
    beta_imaginary: float
    a: MatrixOperand
    b: MatrixOperand
    c: MatrixOperand
    d: MatrixOperand
    bias: MatrixOperand
    auxiliary: MatrixOperand


class TensorMapCall(WireRecord):
    """Arguments of ``cuTensorMapEncodeTiled``, with its numbers. ``aligned``: the map itself is at a multiple of 64.

    The four lists are empty if ``rank`` is more than a tensor map has.
    """

    type: int
    rank: int
    address: Address
    interleave: int
    swizzle: int
    fill: int
    aligned: bool
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]


class WatchedPages(WireRecord):
    """``size`` bytes of pages that the host must not access before a call waits; if ``readable``, not write."""

    address: Address
    size: int
    readable: bool


class MemoryRows(WireRecord):
    """``rows`` of ``width`` bytes of memory, which begin a pitch apart."""

    address: Address
    pitch: int
    width: int
    rows: int
