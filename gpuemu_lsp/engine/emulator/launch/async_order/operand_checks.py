"""Checks of the operands of products in shared memory: whether they are there, and where the descriptor says."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuemu_lsp.engine.emulator.abi.memory import READABLE, Shadow
from gpuemu_lsp.engine.emulator.launch.async_order.operands import CHUNK, Indices, OperandChunks, operand_bytes
from gpuemu_lsp.engine.emulator.launch.async_order.tiles import SharedTiles
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import (
    LAYOUT,
    UNINITIALISED,
    BlockTraffic,
    EventCaller,
    SharedTraffic,
)

_BROUGHT: Final = np.uint64(int.from_bytes(bytes([READABLE]) * 8, "little"))
"""Shadow of eight bytes that have been brought by copies, or stored before a fence."""


class OperandChecks:
    """Checks what products of warp groups, and those in tensor memory, read in shared memory."""

    def __init__(self, shared: SharedTraffic) -> None:
        self._shared = shared

    def check(
        self,
        caller: EventCaller,
        name: str,
        chunks: OperandChunks,
        swizzle: int,
        block: BlockTraffic,
        used: int = CHUNK,
    ) -> tuple[bool, bool]:
        """Check an operand of a product; return whether what it reads is there, and whether stores lack a fence.

        ``used`` are the bytes of each chunk that hold elements: the rest is padding.
        """
        reach = operand_bytes(chunks)
        if reach.low < 0 or reach.high >= self._shared.size:
            # The loads of its elements report this.
            return False, True
        places, numbers, stored, shared = reach.places, reach.numbers, False, block.tiles
        self._shared.follow_read(block, numbers)
        whole = self._shared.arena.shadow(caller.window, self._shared.size // CHUNK * CHUNK)
        # What copies have brought needs no closer look: most operands.
        if (whole.view(np.uint64).reshape(-1, 2)[numbers] != _BROUGHT).any():
            places = places.reshape(-1, CHUNK)[:, :used].reshape(-1)
            shadow = whole[places]
            flying, written = shadow & Shadow.IN_FLIGHT != 0, shadow & Shadow.WRITTEN != 0
            stored = bool(written.any())
            missing = (shadow & (Shadow.INITIALISED | Shadow.ADDRESSABLE) == Shadow.ADDRESSABLE) & ~flying
            if flying.any():
                self._shared.explain(caller.site)
                self._in_flight(caller, name, places[flying], shared)
                return False, stored
            if missing.any():
                self._shared.explain(caller.site)
                text = (
                    f"uninitialized read of {int(missing.sum())} of the {places.size} bytes of {name} in "
                    f"shared memory, from {self._shared.place(int(places[missing].min()))} on: nothing has written them"
                )
                self._shared.add(caller, UNINITIALISED, text)
                # The product reads what is there all the same: what overwrites its tile is an error of its own.
                return True, stored
            if stored:
                self._shared.check_fenced(caller, places, f"{name} has")
                numbers = numbers[~written.reshape(-1, used).any(axis=1)]
        for tile in shared.of(numbers):
            if tile.tensor is not None and tile.tensor.swizzle != swizzle:
                text = (
                    f"{name} is read with {_pattern(swizzle)}, and the copy{self._shared.line(tile.site)} "
                    f"wrote its tile with {_pattern(tile.tensor.swizzle)}: its elements are elsewhere than the "
                    "descriptor says"
                )
                self._shared.add(caller, LAYOUT, text, tile.site)
                return False, stored
        return True, stored

    def _in_flight(self, caller: EventCaller, name: str, places: Indices, shared: SharedTiles) -> None:
        text = (
            f"uninitialized read of {places.size} bytes of {name} in shared memory, from "
            f"{self._shared.place(int(places.min()))} on: the bulk copy that writes them is in flight"
        )
        number = int(shared.at(places[:1] // CHUNK)[0])
        tile = shared.tiles[number] if number >= 0 else None
        if tile is not None:
            barrier = self._shared.block(caller.block).barriers.get(tile.barrier)
            place = self._shared.place(tile.barrier - caller.window)
            text += f"; it completes phase {tile.phase} of the mbarrier at {place}"
            last, times = barrier.passed.get(caller.warp, (-1, 0)) if barrier is not None else (-1, 0)
            if last < 0:
                text += ", which this warp has not waited for (a wait for products does not wait for copies)"
            elif times > 1:
                text += f", and this warp has waited {times} times for phase {last}: its parity did not change"
            else:
                text += f", and this warp has waited for phase {last} only"
        self._shared.add(caller, UNINITIALISED, text, tile.site if tile is not None else None)


def _pattern(swizzle: int) -> str:
    return f"the swizzle of {CHUNK << swizzle} bytes" if swizzle else "no swizzle"
