"""A recorded launch as the arguments of its kernel: what a plan needs to make a case of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.recordings.model import Dim3

STRATEGY = "recorded"
"""First part of the strategy of a case that is made from a recorded launch: ``recorded/DIGEST:VALUES``."""

SAME, PERMUTED, UNIFORM, SIZED = "same", "permuted", "uniform", "sized"
"""Values of such a case: those recorded, those of each input in another order, others in its range, or those recorded
at other sizes."""


@dataclass(frozen=True, slots=True)
class RecordedMemory:
    """An allocation: its address in the program, its size in bytes, and the digests of its contents.

    The fields are those of :class:`~gpuemu_lsp.engine.recordings.model.RecordedAllocation`.
    """

    address: int
    size: int
    before: str | None
    initialised: str | None
    after: str | None
    addresses: bool
    variable: str | None
    description: str


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """One recorded launch.

    ``dims`` are its sizes. ``scalars`` has the bytes of by-value arguments in hexadecimal, ``tensors`` the memory of
    pointers, ``shapes`` its extents, and ``offsets`` the bytes from the begin of the memory to the address that is
    passed, all by parameter. ``reachable`` is memory that no parameter points to. ``text`` describes the launch.
    ``unchanged``: the text of the kernel's file is that of the run.
    """

    digest: str
    dims: Mapping[str, int]
    scalars: Mapping[str, str]
    tensors: Mapping[str, RecordedMemory]
    shapes: Mapping[str, tuple[int, ...]]
    offsets: Mapping[str, int]
    reachable: tuple[RecordedMemory, ...]
    grid: Dim3
    block: Dim3
    shared_bytes: int
    text: str
    unchanged: bool

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        (a, b, c), (x, y, z) = self.grid, self.block
        return a * b * c * x * y * z


@dataclass(frozen=True, slots=True)
class RecordedLaunches:
    """The launches of one kernel instance that a run recorded; ``path`` is the recording's file.

    ``sizes`` has the recorded values of each dim if several launches show how sizes are related, else nothing:
    then other sizes serve minimisation only. ``ragged`` are dims that the launch rounds up to whole blocks.
    """

    path: str
    cases: tuple[RecordedCase, ...]
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ragged: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    """Tensors whose values are never changed: their elements are not numbers."""

    def case(self, digest: str) -> RecordedCase | None:
        """Return the launch with a digest."""
        return next((one for one in self.cases if one.digest == digest), None)


def strategy(digest: str, values: str) -> str:
    """Return the strategy of a case that is made from a launch."""
    return f"{STRATEGY}/{digest}:{values}"


def strategy_parts(text: str) -> tuple[str, str] | None:
    """Return the digest and the kind of values of a strategy, None if it is another one."""
    first, _, rest = text.partition("/")
    if first != STRATEGY:
        return None
    digest, _, values = rest.partition("/")[0].partition(":")
    return digest, values
