"""Checks of bulk copies: what they overwrite, and what overwrites the source of a store."""

from __future__ import annotations

import numpy as np

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.async_order.operands import CHUNK, Indices, chunk_numbers
from gpuemu_lsp.engine.emulator.launch.async_order.products import Product, WarpGroup
from gpuemu_lsp.engine.emulator.launch.async_order.tiles import Tile
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import (
    ORDER,
    BlockTraffic,
    EventCaller,
    PendingStore,
    SharedTraffic,
)
from gpuemu_lsp.engine.emulator.launch.state import Incident
from gpuemu_lsp.engine.emulator.launch.tma.places import Pattern
from gpuemu_lsp.engine.emulator.launch.tma.races import AsyncKind, runs
from gpuemu_lsp.engine.emulator.launch.tma.targets import CopyIssuer
from gpuemu_lsp.engine.ptx.model import Immediate
from gpuemu_lsp.engine.tensor_map import TensorMap

_WIDEST_TILE = 256
"""Elements of a row of a tile that compilers split into boxes, at most."""


class CopyChecks:
    """Checks the copies of a launch when they are issued, and follows stores until they have been waited for."""

    def __init__(self, shared: SharedTraffic) -> None:
        self._shared = shared
        self._outside: dict[int, tuple[CopyIssuer, str]] = {}
        self._inside: set[int] = set()

    def report_outside(self) -> None:
        """Report the copies whose box was outside of the tensor each time.

        A copy that is sometimes inside is how a tile of several boxes ends: compilers split one that is wider than the
        swizzle.
        """
        for site, (issuer, text) in self._outside.items():
            if site not in self._inside:
                self._shared.add(issuer, "memory/box-outside", text)

    def issue(
        self,
        issuer: CopyIssuer,
        near: Pattern,
        barrier: int | None,
        tensor: TensorMap | None,
        coordinates: tuple[int, ...],
        outside: bool,
    ) -> None:
        """Check a copy when it is issued: ``near`` are bytes of shared memory, ``barrier`` is None for a store."""
        block = self._shared.block(issuer.block)
        if outside and tensor is not None and not _may_end_a_tile(tensor, coordinates):
            text = "the whole box of this copy is outside of the tensor: "
            text += "it brings zeros only" if barrier is not None else "nothing is stored"
            self._outside.setdefault(issuer.site, (issuer, text))
        else:
            self._inside.add(issuer.site)
        chunks = chunk_numbers(near)
        if barrier is None:
            fenced = self._shared.check_fenced(issuer, near.offsets, "this copy reads")
            self._shared.follow_read(block, chunks)
            epoch = self._read(issuer, chunks)
            block.stores.append(PendingStore(issuer.site, issuer.thread, near.offsets, epoch, fenced=fenced))
            return
        self._check_overwritten(block, issuer, chunks)
        for store in block.stores:
            if np.isin(chunks, store.places // CHUNK).any():
                text = "this copy overwrites a tile that a bulk store still reads: "
                text += "`cp.async.bulk.wait_group.read` is missing"
                self._shared.add(issuer, ORDER, text, store.site)
                block.stores.remove(store)
                break
        one = block.barriers.get(barrier)
        if one is not None:
            one.follow(self._shared.state(barrier))
        tile = Tile(
            issuer.site,
            issuer.thread,
            near.low,
            near.offsets.size,
            barrier,
            one.phase if one is not None else 0,
            tensor,
            coordinates,
        )
        block.tiles.add(tile, chunks)
        block.fenced[chunks] = False

    def _read(self, issuer: CopyIssuer, chunks: Indices) -> int:
        """Record what a store reads in the race detector; return the epoch."""
        order = issuer.order
        if order is None:
            return 0
        epoch = self._shared.races.next_epoch(order.context)
        self._shared.races.access(
            AsyncKind.STORE,
            order,
            order.context,
            issuer.site,
            runs(chunks * CHUNK, CHUNK),
            epoch,
            start=issuer.window,
            block=issuer.block,
            lane=issuer.thread % WARP_SIZE,
        )
        return epoch

    def _check_overwritten(self, block: BlockTraffic, issuer: CopyIssuer, chunks: Indices) -> None:
        context = issuer.order.context if issuer.order is not None else None
        for read in block.reads.values():
            if np.isin(chunks, read.numbers).any() and not self._shared.waited_for(read.work, context):
                text = f"this copy overwrites {read.name}, which `tcgen05` may still read: "
                text += self._shared.missing_wait(read.work)
                self._shared.add(issuer, ORDER, text, read.work.site)
                return
        warp = issuer.thread // WARP_SIZE
        mine = self._shared.block(issuer.home)
        for number, group in block.groups.items():
            text = "its group has not been waited for with `wgmma.wait_group`"
            found = self._readers(group, chunks, group.completed, group.count)
            if not found and (issuer.remote or warp >> 2 != number):
                # Another warp knows of no more than what had been waited for when the arrival was made.
                issued, completed = mine.known.get((warp, (issuer.block, number)), (0, 0))
                found = self._readers(group, chunks, completed, min(issued, group.completed))
                text = "the arrival at the mbarrier that released the tile came before `wgmma.wait_group`"
            if found:
                start = "this copy overwrites a tile that a wgmma in flight still reads: "
                # What the other warps of the group read of it then is a consequence.
                for one in found:
                    self._shared.explain(one.site)
                self._shared.add(issuer, ORDER, start + text, found[0].site)
                return

    def _readers(self, group: WarpGroup, chunks: Indices, start: int, end: int) -> list[Product]:
        """Return those of some products of a group that read chunks of shared memory."""
        kept = group.products[max(start - group.first, 0) : max(end - group.first, 0)]
        return [one for one in kept if one.reads(chunks)]

    def commit(self, caller: EventCaller) -> None:
        """Put the thread's stores so far into a group."""
        block = self._shared.block(caller.block)
        for index in range(len(caller.lanes)):
            thread = caller.thread(index)
            number = block.commits.get(thread, 0)
            block.commits[thread] = number + 1
            for store in block.stores:
                if store.thread == thread and store.group is None:
                    store.group = number

    def wait(self, caller: EventCaller) -> None:
        """Forget the stores that a thread has waited for, after a test of their sources."""
        block = self._shared.block(caller.block)
        instruction = self._shared.sites[caller.site][0]
        operand = instruction.operands[0] if instruction is not None and instruction.operands else None
        allowed = operand.bits if isinstance(operand, Immediate) else 0
        self.check_sources(caller.block, caller.window)
        threads = {caller.thread(index) for index in range(len(caller.lanes))}
        block.stores = [
            one
            for one in block.stores
            if one.thread not in threads or one.group is None or one.group >= block.commits.get(one.thread, 0) - allowed
        ]
        races = self._shared.races
        for lane in caller.lanes if races.active else ():
            thread = caller.warp * WARP_SIZE + lane
            left = [one.epoch for one in block.stores if one.thread == thread]
            until = min(left) if left else races.next_epoch(caller.context)
            races.learn(caller.context, [lane], races.number(AsyncKind.STORE, caller.block, lane), until)

    def check_sources(self, number: int, window: int) -> None:
        """Report stores of a block whose source has been written since they were issued."""
        block = self._shared.block(number)
        for store in list(block.stores):
            if store.fenced and self._shared.bits(window, store.places, Shadow.WRITTEN):
                block.stores.remove(store)
                text = "the tile that this copy reads is written again before `cp.async.bulk.wait_group.read`"
                other = self._shared.writer(window, store.places)
                self._shared.incidents.append(Incident(ORDER, text, store.site, store.thread, number, other))


def _may_end_a_tile(tensor: TensorMap, coordinates: tuple[int, ...]) -> bool:
    """Return whether a box that is outside lies closely behind the end of rows: it may belong to a tile that is not."""
    behind = [first >= size for first, size in zip(coordinates, tensor.sizes, strict=True)]
    before = [
        first + size * step <= 0 for first, size, step in zip(coordinates, tensor.tile, tensor.steps, strict=True)
    ]
    return behind[0] and not any(behind[1:]) and not any(before) and coordinates[0] < tensor.sizes[0] + _WIDEST_TILE
