"""Bulk copies between global and shared memory, with and without tensor maps (PTX ISA sections 5.5 and 9.7.9.25.4-5).

A load arrives as late as its program may observe: when a thread tests the ``mbarrier`` object that it completes on.
Until then its target holds poison that counts as uninitialised, so that a read before the phase is reported. A store
reads shared memory when it is issued.

The race detector does not see these copies, which no thread makes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import READABLE, Shadow
from gpuemu_lsp.engine.emulator.abi.records import lanes_of
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import RANK_SHIFT, ROWS, BulkOperation
from gpuemu_lsp.engine.emulator.devicelib.mbarrier import after_transactions, is_over, outstanding
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.state import Incident, LaunchReport
from gpuemu_lsp.engine.execution import Request
from gpuemu_lsp.engine.tensor_map import MAP_BYTES, TensorMap, decode

UNSUPPORTED: Final = "engine/unsupported-instruction"

_TILE_ALIGNMENT = 128
"""Alignment in bytes of a tile in shared memory (section 9.7.9.25.5.2)."""

_LINE_ALIGNMENT = 16
"""Alignment in bytes of the addresses and the size of a copy without a map."""

_TESTS = (BulkOperation.DELIVER_STATE, BulkOperation.DELIVER_PARITY)

CopyObserver: TypeAlias = "Callable[[CopyIssuer, _Indices, int | None, TensorMap | None, tuple[int, ...], bool], None]"
"""Called before a copy: its issuer, the bytes of shared memory, the address of the ``mbarrier`` object that a load
completes on, the map and coordinates if it has any, and whether all of the box is outside of the tensor."""

_Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Pending:
    """A load that has not arrived: values and shadow bytes by shared address, and the bytes it completes."""

    block: int
    places: _Indices
    values: npt.NDArray[np.uint8]
    shadow: npt.NDArray[np.uint8]
    count: int
    issuer: CopyIssuer


@dataclass(frozen=True, slots=True)
class CopyIssuer:
    """The thread that issues a copy: its block's number and shared window, the instruction's site, its index."""

    block: int
    window: int
    site: int
    thread: int


def swizzled(address: _Indices, bits: int) -> _Indices:
    """Return addresses with their bits 4 and up changed by bits 7 and up, ``bits`` of them (section 5.5.7)."""
    return address ^ ((address >> 3) & ((16 << bits) - 16))


def tile_addresses(tensor: TensorMap, coordinates: tuple[int, ...], start: int) -> tuple[_Indices, _Indices]:
    """Return the address in global memory, -1 outside of the tensor, and in shared memory of each byte of a box."""
    index = np.indices(tensor.box[::-1], dtype=np.int64).reshape(tensor.rank, -1)[::-1]
    inside = np.ones(index.shape[1], dtype=np.bool_)
    far = np.full(index.shape[1], tensor.address, dtype=np.int64)
    for place, first, size, stride in zip(
        index, coordinates, tensor.sizes, (tensor.element_size, *tensor.strides), strict=True
    ):
        at = place + first
        inside &= (at >= 0) & (at < size)
        far += at * stride
    byte = np.arange(tensor.element_size, dtype=np.int64)
    outside = np.where(inside[:, None], far[:, None] + byte, -1).reshape(-1)
    near = swizzled(start + np.arange(tensor.box_bytes, dtype=np.int64), tensor.swizzle)
    return outside, near


class BulkCopies:
    """Executes the bulk copies of one launch."""

    def __init__(self, arena: Arena, request: Request, observe: CopyObserver) -> None:
        self._arena, self._request, self._observe = arena, request, observe
        self._pending: dict[int, list[_Pending]] = {}
        self._unknown: set[int] = set()
        self._incidents: list[Incident] = []
        self.unknown_map = False
        """Whether a copy was given a tensor map that was not made here: the launch is not that of the program."""

    def report_to(self, report: LaunchReport) -> None:
        """Add the incidents of the launch to its report."""
        for incident in self._incidents:
            report.add(incident)

    def execute(self, context: int, site: int, mask: int, which: int) -> None:
        """Execute an operation of generated code; ``context`` is the address of the warp's context."""
        record = _word(context + Warp.BLOCK, ctypes.c_int64)
        window = _word(record + BlockRecord.SHARED, ctypes.c_int64)
        block = _word(record + BlockRecord.LINEAR, ctypes.c_int64)
        first = _word(context + Warp.WARP_ID, ctypes.c_int32) * WARP_SIZE
        rows = [np.ctypeslib.as_array((ctypes.c_int64 * WARP_SIZE).from_address(context + row)) for row in ROWS]
        operation, rank = BulkOperation(which & 0xFF), which >> RANK_SHIFT
        for lane in lanes_of(mask):
            values = [int(row[lane]) & 0xFFFFFFFFFFFFFFFF for row in rows]
            if operation in _TESTS:
                self._deliver(values[0], block, values[1], by_parity=operation is BulkOperation.DELIVER_PARITY)
            else:
                self._copy(operation, rank, values, CopyIssuer(block, window, site, first + lane))

    def _deliver(self, barrier: int, block: int, operand: int, *, by_parity: bool) -> None:
        # A test that succeeds anyway is of an earlier phase than that in which copies are in flight.
        state = self._word(barrier)
        if state is None or is_over(state, operand, by_parity=by_parity):
            return
        # Nothing arrives through an unknown map. The phase ends all the same, so that the launch does.
        if barrier in self._unknown:
            self._unknown.discard(barrier)
            self._complete(barrier, outstanding(state))
        # What a block has not waited for when it ends never arrives in another.
        arriving = [one for one in self._pending.pop(barrier, ()) if one.block == block]
        for index, one in enumerate(arriving):
            now = self._word(barrier)
            if index and now is not None and is_over(now, operand, by_parity=by_parity):
                brought, total = (sum(each.count for each in part) for part in (arriving[:index], arriving))
                text = f"the phase of the mbarrier completes after {brought} of the {total} bytes that copies bring: "
                text += "`expect_tx` is too small, and this copy may still be in flight behind the wait"
                self._add(one.issuer, "sync/mbarrier", text)
            low, high = int(one.places.min()), int(one.places.max()) + 1
            data, shadow = self._arena.data(low, high - low), self._arena.shadow(low, high - low)
            data[one.places - low] = one.values
            shadow[one.places - low] = one.shadow
            self._complete(barrier, one.count)

    def _word(self, barrier: int) -> int | None:
        """Return the bits of an ``mbarrier`` object, None if there is no memory for one."""
        if barrier % 8 or not self._arena.contains(barrier, 8):
            return None
        return int(self._arena.data(barrier, 8).view(np.uint64)[0])

    def _complete(self, barrier: int, count: int) -> None:
        word = self._arena.data(barrier, 8).view(np.uint64)
        word[0] = after_transactions(int(word[0]), count)

    def _copy(self, operation: BulkOperation, rank: int, values: list[int], issuer: CopyIssuer) -> None:
        shared, barrier = values[0] & 0xFFFFFFFF, values[0] >> 32
        if rank:
            tensor = self._map(values[1], rank, issuer)
            if tensor is None:
                self._unknown.add(barrier + issuer.window)
                return
            numbers = [value >> shift & 0xFFFFFFFF for value in values[2:] for shift in (0, 32)]
            signed = tuple(number - (number >> 31 << 32) for number in numbers[:rank])
            far, near = tile_addresses(tensor, signed, shared)
            alignment = _TILE_ALIGNMENT
            described: tuple[TensorMap | None, tuple[int, ...]] = (tensor, signed)
        else:
            count = values[2] & 0xFFFFFFFF
            far = values[1] + np.arange(count, dtype=np.int64)
            near = shared + np.arange(count, dtype=np.int64)
            alignment = _LINE_ALIGNMENT
            described = (None, ())
            if count % _LINE_ALIGNMENT or values[1] % _LINE_ALIGNMENT:
                text = "the size and the global address of a bulk copy are multiples of 16 bytes"
                self._add(issuer, "memory/misaligned", text)
                return
        if shared % alignment:
            text = f"the tile of a bulk copy begins at byte {shared} of shared memory, not at a multiple of {alignment}"
            self._add(issuer, "memory/misaligned", text)
            return
        loads = operation in (BulkOperation.TENSOR_LOAD, BulkOperation.LOAD)
        if not self._addressable(issuer, near, far) or not near.size:
            return
        self._observe(
            issuer, near, barrier + issuer.window if loads else None, *described, bool(rank) and not (far >= 0).any()
        )
        if loads:
            self._load(issuer, far, near + issuer.window, barrier + issuer.window)
        else:
            self._store(far, near + issuer.window)

    def _map(self, address: int, rank: int, issuer: CopyIssuer) -> TensorMap | None:
        known = self._arena.contains(address, MAP_BYTES)
        tensor = decode(bytes(self._arena.data(address, MAP_BYTES))) if known else None
        if tensor is None:
            self.unknown_map = True
            text = "the argument of this copy is no tensor map that was given for the launch"
            self._add(issuer, UNSUPPORTED, text)
        elif tensor.rank != rank:
            text = f"the copy has {rank} coordinates, the tensor map {tensor.rank} dimensions"
            self._add(issuer, "memory/out-of-bounds", text)
            return None
        return tensor

    def _addressable(self, issuer: CopyIssuer, near: _Indices, far: _Indices) -> bool:
        """Report a copy of which bytes are in no memory; elements outside of the tensor are no error."""
        for places, name in ((near + issuer.window, "shared memory"), (far[far >= 0], "global memory")):
            if not places.size:
                continue
            low, size = int(places.min()), int(places.max()) - int(places.min()) + 1
            whole = self._arena.contains(low, size)
            bad = int((self._arena.shadow(low, size)[places - low] & Shadow.ADDRESSABLE == 0).sum()) if whole else 0
            if not whole or bad:
                part = f"{bad} of the {places.size} bytes" if whole else "bytes"
                self._add(issuer, "memory/out-of-bounds", f"{part} of the bulk copy are outside of {name}")
                return False
        return True

    def _add(self, issuer: CopyIssuer, rule: str, message: str) -> None:
        self._incidents.append(Incident(rule, message, issuer.site, issuer.thread, issuer.block))

    def _load(self, issuer: CopyIssuer, far: _Indices, near: _Indices, barrier: int) -> None:
        inside = far >= 0
        # Elements outside of the tensor are zero, and count as bytes of the transaction (section 5.5.3.3).
        values = np.zeros(far.size, dtype=np.uint8)
        states = np.full(far.size, READABLE, dtype=np.uint8)
        if inside.any():
            low = int(far[inside].min())
            size = int(far[inside].max()) - low + 1
            values[inside] = self._arena.data(low, size)[far[inside] - low]
            # What was never written stays uninitialised where it arrives.
            states[inside] &= self._arena.shadow(low, size)[far[inside] - low] | (255 & ~Shadow.INITIALISED)
        self._pending.setdefault(barrier, []).append(_Pending(issuer.block, near, values, states, far.size, issuer))
        low, size = int(near.min()), int(near.max()) - int(near.min()) + 1
        self._arena.data(low, size)[near - low] = self._request.fill
        if self._request.checks.uninitialized:
            self._arena.shadow(low, size)[near - low] = Shadow.ADDRESSABLE | Shadow.IN_FLIGHT

    def _store(self, far: _Indices, near: _Indices) -> None:
        inside = far >= 0
        if not inside.any():
            return
        to, source = far[inside], near[inside]
        low, start = int(to.min()), int(source.min())
        data, shadow = self._arena.data(low, int(to.max()) - low + 1), self._arena.shadow(low, int(to.max()) - low + 1)
        size = int(source.max()) - start + 1
        data[to - low] = self._arena.data(start, size)[source - start]
        known = self._arena.shadow(start, size)[source - start] & Shadow.INITIALISED
        kept = shadow[to - low] & (255 & ~Shadow.INITIALISED)
        shadow[to - low] = kept | Shadow.WRITTEN | known


def _word(address: int, kind: type[ctypes.c_int64] | type[ctypes.c_int32]) -> int:
    return int(kind.from_address(address).value)
