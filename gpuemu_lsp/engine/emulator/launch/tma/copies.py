"""Executes the bulk copies of one launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from gpuemu_lsp.engine.emulator.abi.memory import READABLE, Shadow
from gpuemu_lsp.engine.emulator.abi.records import lanes_of
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import (
    LOADS,
    MULTICAST,
    PAIR,
    RANK_SHIFT,
    REDUCTION_SHIFT,
    REDUCTIONS,
    ROWS,
    TYPE_SHIFT,
    TYPES,
    BulkOperation,
)
from gpuemu_lsp.engine.emulator.devicelib.cluster import OFFSET_BITS
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.state import Incident, LaunchReport, PreparedLaunch
from gpuemu_lsp.engine.emulator.launch.tma.boxes import nan_bytes, tile_addresses
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED, TensorMaps
from gpuemu_lsp.engine.emulator.launch.tma.pending_copies import PendingCopies, PendingCopy
from gpuemu_lsp.engine.emulator.launch.tma.places import Bytes, Pattern, Places, fill, gathered, line, scatter
from gpuemu_lsp.engine.emulator.launch.tma.races import AsyncKind, AsyncRaces, Runs, made_runs, runs
from gpuemu_lsp.engine.emulator.launch.tma.reductions import known_after, reduce_into, reducible
from gpuemu_lsp.engine.emulator.launch.tma.targets import (
    CopyIssuer,
    multicast_targets,
    offset_of,
    row_values,
    target_of,
)
from gpuemu_lsp.engine.tensor_map import TensorMap

_TILE_ALIGNMENT = 128
"""Alignment in bytes of a tile in shared memory (section 9.7.9.25.5.2)."""

_LINE_ALIGNMENT = 16
"""Alignment in bytes of the addresses and the size of a copy without a map."""

CopyObserver: TypeAlias = "Callable[[CopyIssuer, Pattern, int | None, TensorMap | None, tuple[int, ...], bool], None]"
"""Called before a copy: its issuer, the bytes of shared memory, the address of the ``mbarrier`` object that a load
completes on, the map and coordinates if it has any, and whether all of the box is outside of the tensor."""

_ORDERED = LOADS | {BulkOperation.TENSOR_STORE, BulkOperation.STORE, BulkOperation.SEND_VALUES}
"""Copies, which access shared memory at times of their own."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy with its operands: ``far`` and ``near`` are its bytes, the latter in shared memory from its start.

    ``reduction`` is its name and type of elements.
    """

    operation: BulkOperation
    far: Places
    near: Pattern
    tensor: TensorMap | None
    coordinates: tuple[int, ...]
    reduction: tuple[str, str] | None


class BulkCopies:
    """Executes the bulk copies of one launch."""

    def __init__(self, prepared: PreparedLaunch, races: AsyncRaces, observe: CopyObserver) -> None:
        self._prepared, self._arena, self._request = prepared, prepared.arena, prepared.request
        self._races, self._observe = races, observe
        self._pending = PendingCopies(prepared.arena, self._add)
        self._incidents: list[Incident] = []
        self._maps = TensorMaps(prepared, self._add)

    @property
    def unknown_map(self) -> bool:
        """Whether a copy was given a tensor map that was not made here: the launch is not that of the program."""
        return self._maps.unknown

    def report_to(self, report: LaunchReport) -> None:
        """Add the incidents of the launch to its report."""
        for incident in self._incidents:
            report.add(incident)

    def deliver(self, context: int, mask: int, *, by_parity: bool) -> None:
        """Let copies arrive before tests of ``mbarrier`` objects; ``context`` is the address of the warp's context."""
        block = _word(_word(context + Warp.BLOCK, ctypes.c_int64) + BlockRecord.LINEAR, ctypes.c_int64)
        lanes = lanes_of(mask)
        tests = dict.fromkeys(zip(row_values(context, 0, lanes), row_values(context, 1, lanes), strict=True))
        for barrier, operand in tests:
            arrived = partial(self._arrived, barrier, context)
            self._pending.deliver(barrier, block, operand, arrived, by_parity=by_parity)

    def _arrived(self, barrier: int, context: int, copy: PendingCopy) -> None:
        """Record a copy that arrives, in the test of a warp, in the race detector."""
        issuer = copy.issuer
        if issuer.order is None:
            return
        epoch = self._races.next_epoch(context)
        pieces, size = _pieces(copy.places.pattern)
        number = self._races.access(
            AsyncKind.COPY,
            issuer.order,
            context,
            issuer.site,
            pieces,
            epoch,
            start=copy.places.base,
            block=issuer.block,
            lane=issuer.thread % WARP_SIZE,
            size=size,
            store=True,
            atomic=copy.reduction is not None,
        )
        self._races.publish(barrier, issuer.block, number, epoch)

    def execute(self, context: int, site: int, mask: int, which: int) -> None:
        """Execute a copy of generated code; ``context`` is the address of the warp's context."""
        record = _word(context + Warp.BLOCK, ctypes.c_int64)
        window = _word(record + BlockRecord.SHARED, ctypes.c_int64)
        block = _word(record + BlockRecord.LINEAR, ctypes.c_int64)
        first = _word(context + Warp.WARP_ID, ctypes.c_int32) * WARP_SIZE
        for lane, *values in _operands(context, mask):
            operation = which & 0xFF
            order = self._races.order(context, lane) if operation in _ORDERED else None
            issuer = CopyIssuer(block, window, site, first + lane, block, order)
            if operation == BulkOperation.SEND_VALUES:
                self._send_values(which, values, issuer)
            elif operation == BulkOperation.REPLACE_MAP:
                self._maps.replace(which, values, issuer)
            elif operation == BulkOperation.MAP_FENCE:
                self._maps.fence(values)
            elif operation == BulkOperation.COPY_MAP:
                # All lanes of the warp execute it, with the same addresses.
                self._maps.copy(values, issuer)
                return
            else:
                self._copy(which, values, issuer)

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def _copy(self, which: int, values: list[int], issuer: CopyIssuer) -> None:
        operation = BulkOperation(which & 0xFF)
        shared, barrier = values[0] & 0xFFFFFFFF, values[0] >> 32
        copy = self._decoded(which, operation, values, offset_of(shared), issuer)
        if copy is None:
            if operation in LOADS:
                self._pending.add_unknown(offset_of(barrier) + issuer.window)
            return
        if not copy.near.extent:
            return
        if operation not in LOADS:
            self._store(copy, issuer)
            return
        for target, arrival in self._targets(which, values, shared, barrier, issuer):
            self._load(copy, target, arrival, offset_of(barrier))

    def _targets(
        self, which: int, values: list[int], shared: int, barrier: int, issuer: CopyIssuer
    ) -> list[tuple[CopyIssuer, CopyIssuer]]:
        """Return the blocks that a load writes to, each with that of its ``mbarrier``; missing ones are reported."""
        if which & PAIR and not barrier >> OFFSET_BITS and self._rank(issuer.home) % 2:
            # On a GPU the address of a variable has the rank of its block, which programs clear to name the first block
            # of the pair. Here it has none, so that the own object and the other's have one address.
            text = "the mbarrier of a copy by the second block of a pair is named without `mapa`, which cannot be run"
            self._add(issuer, UNSUPPORTED, text)
            return []
        if which & MULTICAST:
            targets, missing = multicast_targets(self._prepared, issuer, values[4] >> 32 & 0xFFFF)
            if missing:
                ranks = ", ".join(map(str, missing))
                text = f"the mask of this multicast copy names block {ranks} of a cluster of "
                self._add(issuer, "memory/out-of-bounds", f"{text}{self._prepared.cluster_blocks}")
            return [(target, self._arrival(which, target, barrier)) for target in targets]
        target, arrival = (target_of(self._prepared, issuer, address) for address in (shared, barrier))
        if target is None or arrival is None:
            self._add(issuer, "memory/out-of-bounds", "the target of this copy is in no block of the cluster")
            return []
        pair = which & PAIR and target.block ^ 1 == arrival.block
        if target.block != arrival.block and not pair:
            text = "the target of this copy and the mbarrier that it completes on are in different blocks"
            self._add(issuer, "sync/mbarrier", text)
            return []
        return [(target, arrival)]

    def _rank(self, block: int) -> int:
        """Return the rank of a block in its cluster."""
        return next((rank for rank, one in enumerate(self._prepared.residents) if one.number == block), 0)

    def _arrival(self, which: int, target: CopyIssuer, barrier: int) -> CopyIssuer:
        """Return the block whose ``mbarrier`` a multicast copy to a block arrives at."""
        field = barrier >> OFFSET_BITS
        if not which & PAIR or not field:
            return target
        # In each pair the object of the block whose rank is as even or odd as that of the address.
        rank = self._rank(target.block) & ~1 | (field - 1) & 1
        return target_of(self._prepared, target, rank + 1 << OFFSET_BITS) or target

    def _decoded(
        self, which: int, operation: BulkOperation, values: list[int], shared: int, issuer: CopyIssuer
    ) -> _Copy | None:
        """Return a copy with its operands; None for one that a GPU does not execute, after a report."""
        alignment = _TILE_ALIGNMENT if which >> RANK_SHIFT & 7 else _LINE_ALIGNMENT
        if shared % alignment:
            text = f"the tile of a bulk copy begins at byte {shared} of shared memory, not at a multiple of {alignment}"
            self._add(issuer, "memory/misaligned", text)
            return None
        rank, reduction = which >> RANK_SHIFT & 7, REDUCTIONS[which >> REDUCTION_SHIFT & 15]
        type_ = TYPES[which >> TYPE_SHIFT & 15]
        if rank:
            tensor = self._maps.find(values[1], rank, issuer)
            if tensor is None:
                return None
            numbers = [value >> shift & 0xFFFFFFFF for value in values[2:] for shift in (0, 32)]
            signed = tuple(number - (number >> 31 << 32) for number in numbers[:rank])
            start = signed[0] * tensor.element_size
            # Not in the manual: an H100 ends every such copy with an illegal instruction, also one wholly outside.
            # Here it is executed, so that what follows from it is not reported as well.
            if start % _LINE_ALIGNMENT:
                text = (
                    f"the box begins at coordinate {signed[0]} of the contiguous dimension, {start} bytes from the "
                    "start of the tensor: a GPU stops with an illegal instruction, as 16 does not divide that"
                )
                self._add(issuer, "memory/misaligned", text)
            far, near = tile_addresses(tensor, signed, shared)
            if reduction and not reducible(reduction, tensor.type):
                kind = f"elements of type {tensor.type}" if tensor.type else "elements whose type is not known"
                self._add(issuer, UNSUPPORTED, f"the reduction `{reduction}` of a tensor map for {kind} cannot be run")
                return None
            combined = (reduction, tensor.type) if reduction else None
            return _Copy(operation, far, near, tensor, signed, combined)
        count = values[2] & 0xFFFFFFFF
        if operation is BulkOperation.SEND:
            source = offset_of(values[1])
            far = Places(issuer.window + source, line(0, count))
        else:
            source = values[1]
            far = Places(source, line(0, count))
        if count % _LINE_ALIGNMENT or source % _LINE_ALIGNMENT:
            memory = "shared" if operation is BulkOperation.SEND else "global"
            text = f"the size and the {memory} address of a bulk copy are multiples of 16 bytes"
            self._add(issuer, "memory/misaligned", text)
            return None
        combined = (reduction, type_) if reduction else None
        return _Copy(operation, far, line(shared, count), None, (), combined)

    def _addressable(self, issuer: CopyIssuer, near: Pattern, far: Places | None) -> bool:
        """Report a copy of which bytes are in no memory; elements outside of the tensor are not errors."""
        whose = "the shared memory of another block of the cluster" if issuer.remote else "shared memory"
        for places, name in ((Places(issuer.window, near), whose), (far.within if far else None, "global memory")):
            if places is None or not places.pattern.extent:
                continue
            pattern = places.pattern
            whole = self._arena.contains(places.base + pattern.low, pattern.extent)
            bad = int((gathered(self._arena.shadow, places) & Shadow.ADDRESSABLE == 0).sum()) if whole else 0
            if not whole or bad:
                part = f"{bad} of the {pattern.offsets.size} bytes" if whole else "bytes"
                text = f"{part} of the bulk copy are outside of {name}"
                if issuer.remote and name is whose:
                    text += ", or the block has not started or has exited: no `barrier.cluster` is between"
                self._add(issuer, "memory/out-of-bounds", text)
                return False
        return True

    def _add(self, issuer: CopyIssuer, rule: str, message: str, other: int | None = None) -> None:
        self._incidents.append(Incident(rule, message, issuer.site, issuer.thread, issuer.home, other))

    # ---- execution ---------------------------------------------------------------------------------------------------

    def _load(self, copy: _Copy, issuer: CopyIssuer, arrival: CopyIssuer, barrier: int) -> None:
        barrier += arrival.window
        if not self._addressable(issuer, copy.near, copy.far):
            self._pending.add_unknown(barrier)
            return
        inside = copy.far.inside
        outside = inside is not None and not inside.any()
        self._observe(issuer, copy.near, barrier, copy.tensor, copy.coordinates, outside)
        values, states = self._read(copy.far)
        if copy.tensor is not None and copy.tensor.nan_fill and inside is not None:
            values[~inside] = np.tile(nan_bytes(copy.tensor), int((~inside).sum()) // copy.tensor.element_size)
        places = Places(issuer.window, copy.near)
        self._send(barrier, arrival.block, PendingCopy(places, values, states, issuer, copy.reduction))

    def _send(self, barrier: int, block: int, copy: PendingCopy) -> None:
        """Put a copy into flight: its target is not readable until it arrives at an object of a block."""
        self._pending.add(barrier, block, copy)
        if copy.reduction is not None:
            return
        fill(self._arena.data, copy.places, self._request.fill)
        if self._request.checks.uninitialized:
            fill(self._arena.shadow, copy.places, Shadow.ADDRESSABLE | Shadow.IN_FLIGHT)

    def _read(self, far: Places) -> tuple[Bytes, Bytes]:
        """Return the bytes of places and their shadow bytes, zeros outside of the tensor."""
        # What was never written stays uninitialised where it arrives.
        kept = np.uint8(255 & ~Shadow.INITIALISED)
        if far.inside is None:
            return gathered(self._arena.data, far), (gathered(self._arena.shadow, far) | kept) & np.uint8(READABLE)
        # Elements outside of the tensor are zero, and count as bytes of the transaction (section 5.5.3.3).
        values = np.zeros(far.inside.size, dtype=np.uint8)
        states = np.full(far.inside.size, READABLE, dtype=np.uint8)
        if far.inside.any():
            within = far.within
            values[far.inside] = gathered(self._arena.data, within)
            states[far.inside] &= gathered(self._arena.shadow, within) | kept
        return values, states

    def _store(self, copy: _Copy, issuer: CopyIssuer) -> None:
        if not self._addressable(issuer, copy.near, copy.far):
            return
        inside, to = copy.far.inside, copy.far.within
        outside = not to.pattern.extent
        self._observe(issuer, copy.near, None, copy.tensor, copy.coordinates, outside)
        if outside:
            return
        values, states = self._read(Places(issuer.window, copy.near))
        if inside is not None:
            values, states = values[inside], states[inside]
        before, kept = gathered(self._arena.shadow, to), np.uint8(255 & ~Shadow.INITIALISED)
        if copy.reduction is not None:
            reduce_into(self._arena, to.addresses, values, *copy.reduction)
            known = known_after(before, states)
        else:
            scatter(self._arena.data, to, values)
            known = states & np.uint8(Shadow.INITIALISED)
        scatter(self._arena.shadow, to, before & kept | np.uint8(Shadow.WRITTEN) | known)

    def _send_values(self, which: int, values: list[int], issuer: CopyIssuer) -> None:
        """Execute a ``st.async`` or ``red.async``."""
        count, reduction = which >> RANK_SHIFT & 7, REDUCTIONS[which >> REDUCTION_SHIFT & 15]
        type_ = TYPES[which >> TYPE_SHIFT & 15]
        size = int(type_[1:]) // 8
        shared, barrier = values[0] & 0xFFFFFFFF, values[0] >> 32
        near = line(offset_of(shared), count * size)
        if offset_of(shared) % (count * size):
            text = f"the address of this store is not {count * size}-byte aligned"
            self._add(issuer, "memory/misaligned", text)
            return
        data = b"".join((value & (1 << 8 * size) - 1).to_bytes(size, "little") for value in values[1 : 1 + count])
        for target, arrival in self._targets(0, values, shared, barrier, issuer):
            if not self._addressable(target, near, None):
                continue
            states = np.full(near.extent, READABLE, dtype=np.uint8)
            copy = PendingCopy(
                Places(target.window, near),
                np.frombuffer(data, dtype=np.uint8),
                states,
                target,
                (reduction, type_) if reduction else None,
            )
            self._send(offset_of(barrier) + arrival.window, arrival.block, copy)


@lru_cache(maxsize=256)
def _pieces(pattern: Pattern) -> tuple[Runs, int]:
    """Return the runs and the size of the pieces of 16 bytes, or of 4, that some bytes are."""
    size = _LINE_ALIGNMENT if pattern.pieces is not None and pattern.low % _LINE_ALIGNMENT == 0 else 4
    if pattern.dense:
        return made_runs(np.array([[pattern.low, pattern.extent // size]])), size
    return runs(pattern.offsets // size * size, size), size


def _operands(context: int, mask: int) -> list[list[int]]:
    """Return the number of each executing lane with its operands in scratch space."""
    lanes = lanes_of(mask)
    rows = (row_values(context, row, lanes) for row in range(len(ROWS)))
    return [list(one) for one in zip(lanes, *rows, strict=True)]


def _word(address: int, kind: type[ctypes.c_int64] | type[ctypes.c_int32]) -> int:
    return int(kind.from_address(address).value)
