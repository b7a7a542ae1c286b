"""The race detector's general path: one lane's access, compared with and recorded in shadow cells.

What epochs show is decided here; orders beyond barriers and warp synchronisation are asked of Python
(:mod:`~gpuemu_lsp.engine.emulator.launch.vector_clocks`). The essay is in :mod:`~gpuemu_lsp.engine.emulator.devicelib`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.member_epochs import add_join_members, add_unsynchronised_lanes
from gpuemu_lsp.engine.emulator.devicelib.race_batch import add_broadcast, add_row_by_cell, add_scattered
from gpuemu_lsp.engine.emulator.devicelib.race_conflicts import add_conflict
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import (
    AccessView,
    each_cell,
    keep_other_reader,
    return_if,
    view_access,
)
from gpuemu_lsp.engine.emulator.devicelib.race_lines import add_expand_lines, add_row_by_line, expand_lines_of
from gpuemu_lsp.engine.emulator.devicelib.race_order import (
    acquire,
    add_acquire_release,
    add_sync_warp,
    release,
)
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, POINTER, VOID, Value, i32


class _Planes(NamedTuple):
    """Planes of a cell that store the last access of one kind."""

    thread: ShadowPlane
    epoch: ShadowPlane
    site: ShadowPlane
    lanes: ShadowPlane


_WRITES: Final = _Planes(ShadowPlane.WRITER, ShadowPlane.WRITE_EPOCH, ShadowPlane.WRITE_SITE, ShadowPlane.WRITER_LANES)
_READS: Final = _Planes(ShadowPlane.READER, ShadowPlane.READ_EPOCH, ShadowPlane.READ_SITE, ShadowPlane.READER_LANES)


_WEAK_WRITES: Final = _Planes(
    ShadowPlane.WEAK_WRITER, ShadowPlane.WEAK_WRITE_EPOCH, ShadowPlane.WEAK_WRITE_SITE, ShadowPlane.WEAK_WRITER_LANES
)
_WEAK_READS: Final = _Planes(
    ShadowPlane.WEAK_READER, ShadowPlane.WEAK_READ_EPOCH, ShadowPlane.WEAK_READ_SITE, ShadowPlane.WEAK_READER_LANES
)


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A stored access of a cell as seen from the current one.

    ``concurrent``: neither barriers nor synchronisation of lanes order it before the current one.
    """

    thread: Value
    epoch: Value
    site: Value
    lanes: Value
    distance: Value
    concurrent: Value


def add_lane(module: ir.Module, expand: Value) -> Value:
    """Add ``race_lane(ctx, site, lane, address, size, flags, value)``: check, report and record one lane's access.

    ``flags`` are :class:`RaceFlag` bits. ``value`` is the offset of a store's new bytes in the context.
    """
    helpers = _Helpers(add_conflict(module), add_unsynchronised_lanes(module), add_join_members(module))
    function, b = t.new_function(module, "race_lane", VOID, [POINTER, I32, I32, I64, I32, I32, I64])
    ctx, _, lane, address, size, flags, _ = function.args
    view = view_access(b, ctx, address)
    # Local memory; the function is called for generic addresses, too, whose space is known at run time only.
    return_if(b, view.foreign, None)
    me = b.add(view.me, lane)

    def has(flag: int) -> Value:
        return b.icmp_unsigned("!=", b.and_(flags, i32(flag)), i32(0))

    is_store = has(RaceFlag.STORE)
    # An acquire takes effect before its own access is checked: the releasing thread may have accessed this location
    # before its fence, too (a lock that it initialised, say).
    with b.if_then(has(RaceFlag.ACQUIRE)):
        acquire(b, view, ctx, lane, address, flags)
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    cells = b.lshr(b.zext(size, I64), load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT))
    expand_lines_of(b, expand, ctx, address, b.trunc(cells, I32))
    with each_cell(b, cells) as index:
        cell = _LaneCell(view, function.args, me, index, helpers)
        with b.if_else(is_store) as (then, otherwise):
            with then:
                last_write = cell.check(_WRITES, _WEAK_WRITES)
                cell.check(_READS, _WEAK_READS)
                cell.record_write(last_write)
            with otherwise:
                cell.check(_WRITES, _WEAK_WRITES)
                cell.record_read()
    # A release follows its own access, so that the acquiring thread does not find an unordered write.
    with b.if_then(has(RaceFlag.RELEASE)):
        release(b, view, ctx, lane, address, flags)
    b.ret_void()
    return function


class _Helpers(NamedTuple):
    """Functions that the lane path calls."""

    conflict: Value
    unsynchronised_lanes: Value
    join_members: Value


class _LaneCell:
    """Emits the check and the record of one lane's access for one shadow cell."""

    def __init__(
        self, view: AccessView, arguments: tuple[Value, ...], me: Value, index: Value, helpers: _Helpers
    ) -> None:
        self._b, self._view, self._arguments, self._helpers = view.b, view, arguments, helpers
        self._ctx, self._site, self._lane = arguments[:3]
        self._me, self._index = me, index
        b, flags = view.b, arguments[5]
        self._is_strong = b.icmp_unsigned("!=", b.and_(flags, i32(RaceFlag.STRONG)), i32(0))
        self._block_scope = b.icmp_unsigned("!=", b.and_(flags, i32(RaceFlag.BLOCK_SCOPE)), i32(0))
        scope = b.select(self._block_scope, i32(Epoch.BLOCK_SCOPE), i32(0))
        # The scope of a weak access is meaningless: it races with whatever it conflicts with.
        self._flags = b.select(self._is_strong, b.or_(i32(Epoch.STRONG), scope), i32(0))

    def check(self, planes: _Planes, weak_planes: _Planes) -> _Earlier:
        """Report a race with the stored accesses unless something orders them; return the record of all of them."""
        b = self._b
        earlier = self._earlier(planes)
        has_strong = self._has(earlier.epoch, Epoch.STRONG)
        both_strong = b.and_(has_strong, self._is_strong)
        # Strong accesses race unless the scope of each includes the other's thread: then they are morally strong (PTX
        # ISA section 8.7.1). Only blocks matter here, so .cluster counts as wider than a block.
        other_block = b.icmp_unsigned(">=", earlier.distance, i32(1024))
        narrow = b.or_(self._block_scope, self._has(earlier.epoch, Epoch.BLOCK_SCOPE))
        races = b.or_(b.not_(both_strong), b.and_(other_block, narrow))
        with b.if_then(b.and_(earlier.concurrent, races)):
            self._call_conflict(planes, earlier)
        # A strong access races with the weak ones alone that the record stands for.
        with b.if_then(both_strong):
            weak = self._earlier(weak_planes)
            with b.if_then(weak.concurrent):
                self._call_conflict(planes, weak)
        return earlier

    def record_write(self, earlier: _Earlier) -> None:
        """Store the access as the cell's last write.

        Unordered writes coexist only if all are strong. In any other case the earlier one has just been reported, and
        this one takes its place.
        """
        b = self._b
        self._keep_weak(earlier, _WEAK_WRITES)
        both_strong = b.and_(self._has(earlier.epoch, Epoch.STRONG), self._is_strong)
        self._record(_WRITES, earlier, b.and_(earlier.concurrent, both_strong))

    def record_read(self) -> None:
        """Store the access as the cell's last read."""
        b = self._b
        # Loaded again: the check of the writes may have called into Python, which changes clocks.
        earlier = self._earlier(_READS)
        keep_other_reader(self._view, self._index, earlier.concurrent, self._me)
        self._keep_weak(earlier, _WEAK_READS)
        # A weak read that joins strong ones leaves the record strong: the weak reads alone are stored apart.
        joins = b.and_(self._has(earlier.epoch, Epoch.STRONG), earlier.concurrent)
        with b.if_then(b.and_(joins, b.not_(self._is_strong))):
            weak = self._earlier(_WEAK_READS)
            self._record(_WEAK_READS, weak, weak.concurrent)
        # Reads never race with each other: all unordered ones stay, as one merged record.
        self._record(_READS, earlier, earlier.concurrent)

    def _keep_weak(self, earlier: _Earlier, weak_planes: _Planes) -> None:
        """Copy a weak record that a strong access is about to replace or to join.

        Without it, a weak access that is ordered before the strong one would be forgotten, and its race with another
        thread's strong access missed: initialised by one thread, then updated atomically by several blocks.
        """
        b = self._b
        was_weak = b.not_(self._has(earlier.epoch, Epoch.STRONG))
        with b.if_then(b.and_(was_weak, self._is_strong)):
            for plane, value in zip(
                weak_planes, (earlier.thread, earlier.epoch, earlier.site, earlier.lanes), strict=True
            ):
                b.store(value, self._view.plane(plane, self._index))

    def _record(self, planes: _Planes, earlier: _Earlier, both: Value) -> None:
        """Store the access in place of the earlier one, or together with it where ``both`` is true.

        An earlier access that is ordered before this one is forgotten: what is ordered after this one is ordered after
        it, too.
        """
        b, view = self._b, self._view
        own_lane = b.shl(i32(1), self._lane)
        epoch = view.merged_epoch(earlier.epoch, earlier.distance, both, self._flags)
        # Without a partial-mask synchronisation the latest epoch serves for all lanes.
        near = b.icmp_unsigned("<", earlier.distance, i32(32))
        partial = b.icmp_unsigned(">=", view.partial_sync, view.launch_start)
        with b.if_then(b.and_(both, b.and_(near, partial))):
            arguments = [self._ctx, self._lane, self._address(planes), earlier.epoch, earlier.lanes, epoch]
            b.call(self._helpers.join_members, arguments)
        for plane, value in (
            (planes.lanes, b.select(both, b.or_(earlier.lanes, own_lane), own_lane)),
            (planes.thread, self._me),
            (planes.epoch, epoch),
            (planes.site, self._site),
        ):
            b.store(value, view.plane(plane, self._index))

    def _call_conflict(self, planes: _Planes, earlier: _Earlier) -> None:
        # Out of line: conflicts are rare, and most are resolved there by an order that epochs do not show.
        b, thread, site = self._b, earlier.thread, earlier.site
        if planes in (_READS, _WEAK_READS):
            # The last of several readers may be the writer itself: the other party is then another reader.
            several = b.icmp_unsigned("!=", b.and_(earlier.epoch, i32(Epoch.SPREAD)), i32(0))
            mine = b.and_(several, b.icmp_unsigned("==", thread, self._me))
            thread = b.select(mine, self._load(ShadowPlane.OTHER_READER), thread)
            site = b.select(mine, self._load(ShadowPlane.OTHER_READ_SITE), site)
        other = [site, thread, earlier.epoch, i32(int(planes in (_WRITES, _WEAK_WRITES))), earlier.lanes]
        b.call(self._helpers.conflict, [*self._arguments, *other])

    def _earlier(self, planes: _Planes) -> _Earlier:
        """Load a record, and compare it with the current access."""
        b = self._b
        thread, epoch = self._load(planes.thread), self._load(planes.epoch)
        unordered, distance = self._view.unordered(thread, epoch, self._me)
        lanes = self._view.lanes_of(thread, epoch, self._load(planes.lanes))
        # Lanes that have all synchronised with this one are ordered before it, whatever the warp's last-barrier epoch.
        near = b.icmp_unsigned("<", distance, i32(32))
        record = self._address(planes)
        arguments = [self._ctx, self._lane, record, epoch, lanes]
        missing = b.call(self._helpers.unsynchronised_lanes, arguments)
        concurrent = b.and_(unordered, b.not_(b.and_(near, b.icmp_unsigned("==", missing, i32(0)))))
        return _Earlier(thread, epoch, self._load(planes.site), lanes, distance, concurrent)

    def _address(self, planes: _Planes) -> Value:
        """Return the address of a record's epoch, which identifies the record."""
        return self._b.ptrtoint(self._view.plane(planes.epoch, self._index), I64)

    def _has(self, epoch: Value, flag: int) -> Value:
        b = self._b
        return b.icmp_unsigned("!=", b.and_(epoch, i32(flag)), i32(0))

    def _load(self, plane: int) -> Value:
        return self._b.load(self._view.plane(plane, self._index), typ=I32)


def add_race_detector(module: ir.Module) -> Value:
    """Add the functions of :data:`NAMES` and what they call; return ``race_lane``."""
    expand = add_expand_lines(module)
    for is_store in (False, True):
        for shared in (False, True):
            add_broadcast(module, expand, is_store=is_store, shared=shared)
        add_row_by_cell(module, is_store=is_store, shared=True)
        by_cell = add_row_by_cell(module, is_store=is_store, shared=False)
        add_row_by_line(module, by_cell, expand, is_store=is_store)
        add_scattered(module, expand, is_store=is_store)
    add_sync_warp(module)
    add_acquire_release(module)
    lane = add_lane(module, expand)
    _add_tile(module, lane)
    return lane


def _add_tile(module: ir.Module, one: Value) -> None:
    """Add ``race_tile(ctx, site, lane, start, runs, number, distance, size, flags)``: accesses to pieces of memory.

    ``runs`` are pairs of an offset from ``start`` and a number of pieces ``distance`` bytes apart, at least one. For
    the asynchronous proxy, whose single operations access kilobytes; Python calls it.
    """
    parameters = [POINTER, I32, I32, I64, POINTER, I64, I32, I32, I32]
    function, b = t.new_function(module, "race_tile", VOID, parameters)
    ctx, site, lane, start, runs, number, distance, size, flags = function.args
    with _times(b, number) as run:
        pair = b.shl(run, t.i64(4))
        first = b.add(start, t.load(b, runs, pair, I64))
        with _times(b, t.load(b, runs, b.add(pair, t.i64(8)), I64)) as index:
            place = b.add(first, b.mul(index, b.zext(distance, I64)))
            b.call(one, [ctx, site, lane, place, size, flags, t.i64(0)])
    b.ret_void()


@contextmanager
def _times(b: ir.IRBuilder, count: Value) -> Iterator[Value]:
    """Emit a loop over 0, 1, ... below ``count``, an i64 that is at least 1."""
    before = b.block
    loop, end = b.append_basic_block("times"), b.append_basic_block("times.end")
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I64)
    index.add_incoming(t.i64(0), before)
    yield index
    following = b.add(index, t.i64(1))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, count), loop, end)
    b.position_at_end(end)


NAMES: Final = (
    "race_row_load", "race_row_store", "race_row_load_shared", "race_row_store_shared",
    "race_broadcast_load", "race_broadcast_store", "race_broadcast_load_shared", "race_broadcast_store_shared",
    "race_scattered_load", "race_scattered_store",
    "race_sync_warp", "race_lane", "race_acquire_release", "race_tile",
)  # fmt: skip
"""Functions that generated code and Python call."""
