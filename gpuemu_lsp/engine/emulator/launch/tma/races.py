"""The asynchronous proxy as a party of its own in the race detector.

A bulk copy writes its tile from its issue to the end of the phase of its ``mbarrier``, a product reads its operands
from its issue to ``wgmma.wait_group``, and a bulk store its source to ``cp.async.bulk.wait_group``. None of these are
accesses of the thread that issues them: what is ordered after that thread is not ordered after them. Each kind is
therefore made by threads that no block has, with the numbers of warps above all of the program. The operations of
``tcgen05`` end at an ``mbarrier`` or a ``tcgen05.wait``, and are made by such threads, too.

An operation comes after what is ordered before its issue, and before what acquires its end: the tests of the
``mbarrier``, the waits for the group. A copy is recorded when it arrives, with the order of its issue, so that accesses
in between race with it; a product is recorded when it is issued, and its end only gives its epoch to those who wait.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from gpuemu_lsp.engine.emulator.abi.access_flags import RaceFlag
from gpuemu_lsp.engine.emulator.abi.fields import Field
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.clocks.records import Clock
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch
from gpuemu_lsp.engine.emulator.launch.tma.places import Indices
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks


class AsyncKind(IntEnum):
    """Operations of the proxy: the number in a block of the warp that stands for them."""

    TENSOR_LOAD = 27
    TENSOR_STORE = 28
    STORE = 29
    PRODUCT = 30
    COPY = 31


MOST_THREADS: Final = AsyncKind.TENSOR_LOAD * WARP_SIZE
"""Threads of a block above which there are no numbers left for the proxy: its races are not looked for then."""

_PIECE = 16
"""Bytes that are reported at a time."""

_NARROW: Final = (
    Warp.WARP_ID,
    Warp.FIRST_THREAD,
    Warp.START_EPOCH,
    Warp.EPOCH,
    Warp.WARP_BARRIER_EPOCH,
    Warp.BLOCK_BARRIER_EPOCH,
    Warp.CLUSTER_BARRIER_EPOCH,
)
"""Fields of a warp's context that decide what is ordered before its accesses."""

_CALL = ctypes.CFUNCTYPE(
    None,
    ctypes.c_int64,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_int32,
)


class Order(NamedTuple):
    """What is ordered before an operation: a clock, and the epochs of the issuer's last barriers; and its thread.

    ``context`` is the address of the context of the issuer's warp, ``thread`` its index in its block.
    """

    clock: Clock
    block_barrier: int
    cluster_barrier: int
    context: int
    block: int
    thread: int


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Runs of adjacent pieces of memory: the start and the number of pieces of each; ``address`` is that of the table.

    Starts are relative to a place that is given with them.
    """

    table: Indices
    address: int
    count: int


class AsyncRaces:
    """Records the accesses of the asynchronous proxy in the race detector of one launch."""

    def __init__(self, prepared: PreparedLaunch, clocks: VectorClocks) -> None:
        self._clocks, self._launch = clocks, prepared.launch
        self.active = clocks.follows_threads and prepared.threads <= MOST_THREADS
        self._context = Record(Warp.SIZE)
        base = self._context.address
        # Written for each operation: through views of single fields in a fraction of the time.
        self._wide = [ctypes.c_int64.from_address(base + one) for one in (Warp.LAUNCH, Warp.BLOCK)]
        self._narrow = [ctypes.c_uint32.from_address(base + one) for one in _NARROW]
        # The thread of the last copy: none has this number.
        self._copier = AsyncKind.COPY * WARP_SIZE - 1
        self._ordered = [ctypes.c_uint32.from_address(base + Warp.ORDERED_THREAD + 4 * one) for one in range(WARP_SIZE)]
        self._until = [ctypes.c_uint32.from_address(base + Warp.ORDERED_UNTIL + 4 * one) for one in range(WARP_SIZE)]
        self._last = 0
        if self.active:
            self._detect = _CALL(int(DEVICE_LIBRARY.address("race_tile")))

    def order(self, context: int, lane: int, *, whole_warp: bool = False) -> Order | None:
        """Return the order of an operation that a lane issues now; None if races are not looked for.

        ``whole_warp``: all lanes of the warp execute it together.
        """
        if not self.active:
            return None
        number = _get(context, Warp.FIRST_THREAD) + lane
        clock = self._clocks.order_of(context, lane, whole_warp=whole_warp)
        barriers = (_get(context, Warp.BLOCK_BARRIER_EPOCH), _get(context, Warp.CLUSTER_BARRIER_EPOCH))
        return Order(clock, *barriers, context, number >> 10, number & 1023)

    def next_epoch(self, context: int) -> int:
        """Return a new epoch for operations of the proxy, before the next of a warp's own."""
        now = max(_get(context, Warp.EPOCH), self._last) + Epoch.TICK
        self._last = now
        ctypes.c_uint32.from_address(context + Warp.EPOCH).value = now + Epoch.TICK
        return now

    def access(
        self,
        kind: AsyncKind,
        order: Order,
        context: int,
        site: int,
        places: Runs,
        epoch: int,
        *,
        start: int = 0,
        block: int,
        lane: int,
        size: int = _PIECE,
        store: bool = False,
        atomic: bool = False,
        sampled: bool = False,
    ) -> int:
        """Check and record accesses to pieces of the shared memory of a block; return the number of their thread.

        ``places`` are runs of pieces of ``size`` bytes, from ``start`` on; ``context`` is that of any warp of the
        block. With ``sampled`` the first 4 bytes stand for each piece.
        """
        record = self._context
        number = self.number(kind, block, lane)
        barrier = order.block_barrier if order.block == block else order.cluster_barrier
        for wide, field in zip(self._wide, (Warp.LAUNCH, Warp.BLOCK), strict=True):
            wide.value = ctypes.c_int64.from_address(context + field).value
        # The thread that a finding names is the issuer.
        begin = _get(context, Warp.START_EPOCH)
        warp = order.thread // WARP_SIZE
        values = (warp, number - lane, begin, epoch, barrier, barrier, order.cluster_barrier)
        for cell, value in zip(self._narrow, values, strict=True):
            cell.value = value
        # Most of what products read a copy has brought that their issuer has waited for: known without a question.
        self._ordered[lane].value, self._until[lane].value = self._copier, order.clock.get(self._copier, 0)
        self._clocks.set_order(number, epoch, order.clock)
        flags = RaceFlag.WATCHED
        if store:
            # Not a weak store, which would be left out where it changes nothing.
            flags |= RaceFlag.STORE | RaceFlag.ATOMIC | (RaceFlag.STRONG if atomic else 0)
        width = 4 if sampled else size
        self._detect(record.address, site, lane, start, places.address, places.count, size, width, flags)
        if kind is AsyncKind.COPY:
            self._copier = number
        return number

    def number(self, kind: AsyncKind, block: int, lane: int) -> int:
        """Return the number of the thread that stands for operations of a kind; ``lane`` is below 32."""
        return (block << 10) + kind * WARP_SIZE + lane

    def publish(self, barrier: int, block: int, number: int, epoch: int) -> None:
        """Let those who test an ``mbarrier`` object from now on come after operations up to an epoch."""
        self._clocks.publish(barrier, block, {number: epoch + Epoch.TICK})

    def release(self, barrier: int, block: int, order: Order) -> None:
        """Let those who test an ``mbarrier`` object from now on come after what is ordered before an operation."""
        self._clocks.publish(barrier, block, order.clock)

    def knows(self, context: int, number: int, epoch: int) -> bool:
        """Return whether a warp comes after the operations of a thread of the proxy up to an epoch."""
        return self._clocks.knows(context, number, epoch)

    def writer(self, address: int) -> int | None:
        """Return the site of the last write of this launch to an address, None if it is not known."""
        launch = self._launch
        if not self.active:
            return None
        shift, stride = launch.get(LaunchRecord.RACE_CELL_SHIFT), launch.get(LaunchRecord.RACE_PLANE_STRIDE)
        cell = launch.get(LaunchRecord.RACE_PLANES) + (address - launch.get(LaunchRecord.ARENA) >> shift << 2)
        epoch, site = (
            ctypes.c_uint32.from_address(cell + plane * stride).value
            for plane in (ShadowPlane.WRITE_EPOCH, ShadowPlane.WRITE_SITE)
        )
        return site if epoch >= launch.get(LaunchRecord.RACE_LAUNCH_EPOCH) else None

    def learn(self, context: int, lanes: Sequence[int], number: int, until: int) -> None:
        """Let lanes of a warp come after the operations before an epoch."""
        self._clocks.learn(context, lanes, {number: until})


def _get(context: int, field: Field) -> int:
    return ctypes.c_uint32.from_address(context + field).value


def runs(addresses: Indices, size: int) -> Runs:
    """Return the runs of adjacent pieces of ``size`` bytes."""
    places = np.unique(addresses)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(places) != size) + 1])
    counts = np.diff(np.concatenate([starts, [len(places)]]))
    return made_runs(np.stack([places[starts], counts], axis=1))


def made_runs(table: Indices) -> Runs:
    """Return runs from rows of a start and a number of pieces."""
    kept = np.ascontiguousarray(table, dtype=np.int64)
    return Runs(kept, int(kept.ctypes.data), len(kept))
