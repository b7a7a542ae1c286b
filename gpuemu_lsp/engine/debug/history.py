"""A recording as a database of time: what a thread executed, and what a register held at a moment.

Time is counted in *ticks*. Each execution of a basic block by a warp, a *run*, has a tick for every instruction and one
for its end, in the order of execution. The value of a register at a tick is the last result before it. The ticks of a
window begin where those of the runs before it end, so that a moment has the same tick in every window.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.debug.instance_cache import kept_results
from gpuemu_lsp.engine.emulator.codegen.core.recording_layout import Slot, SlotRole
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.entry_state import NOWHERE
from gpuemu_lsp.engine.emulator.launch.recorder import OVERLAP, RUN, BlockRecording
from gpuemu_lsp.engine.ptx.model import Instruction

Numbers: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.uint64]

_WEB = re.compile(r"(?:\.own\d+|\.\d+)$")
"""What the emulator appends to the name of a register of which it keeps several values apart."""
_LANES: Final = np.arange(WARP_SIZE, dtype=np.uint32)


class Definition(NamedTuple):
    """The result of an instruction in one lane: its tick, and the bits of the register."""

    tick: int
    bits: int


class History:
    """Answers questions about one recording."""

    def __init__(self, recording: BlockRecording) -> None:
        self.recording = recording
        self.program = recording.program
        runs = recording.runs
        self.block: Numbers = runs["block"].astype(np.int64)
        self.lanes: npt.NDArray[np.uint32] = runs["lanes"].astype(np.uint32)
        self.warp: Numbers = runs["warp"].astype(np.int64)
        self._version: Numbers = runs["scalar_pc"].astype(np.int64)
        self._offset: Numbers = runs["offset"].astype(np.int64)
        lengths = np.array([len(block.code) + 1 for block in self.program.blocks], dtype=np.int64)
        self.start: Numbers = recording.window.ticks + np.concatenate([[0], np.cumsum(lengths[self.block])])
        """First tick of each run; behind the last run the end of time."""

    @property
    def end(self) -> int:
        """The tick behind the last one."""
        return int(self.start[-1])

    @property
    def first(self) -> int:
        """The first tick."""
        return int(self.start[0])

    @cached_property
    def floor(self) -> int:
        """The tick from which on the statements of all threads are whole.

        Statements may have begun when a window begins. Its first part, a share of :data:`OVERLAP`, is in the window
        before, too, and is looked at there.
        """
        window = self.recording.window
        if not window.skipped:
            return self.first
        positions = self._offset + np.arange(len(self._offset)) * RUN.itemsize
        return int(self.start[np.searchsorted(positions, (window.end - window.begin) // OVERLAP)])

    def position(self, tick: int) -> int:
        """Return the position of the run that a tick belongs to: see :class:`RecordedWindow`."""
        run = min(max(self.run_at(tick), 0), len(self._offset) - 1)
        return self.recording.window.begin + int(self._offset[run]) + run * RUN.itemsize

    def has(self, tick: int) -> bool:
        """Return whether a tick is in the recording."""
        return self.first <= tick < self.end

    # ---- moments -----------------------------------------------------------------------------------------------------

    def run_at(self, tick: int) -> int:
        """Return the run that a tick belongs to, -1 if it is before the window."""
        return int(np.searchsorted(self.start, tick, side="right")) - 1

    def instruction(self, tick: int) -> Instruction | None:
        """Return the instruction of a tick; at the end of a run that of the terminator, if it has one."""
        run = self.run_at(tick)
        if not 0 <= run < len(self.block):
            return None
        block = self.program.blocks[int(self.block[run])]
        position = tick - int(self.start[run])
        if position < len(block.code):
            return block.code[position]
        end: Instruction | None = getattr(block.terminator, "instruction", None)
        return end

    def runs_of(self, thread: int) -> Numbers:
        """Return the runs in which a thread takes part, in order of time."""
        warp, lane = divmod(thread, WARP_SIZE)
        return self._runs_of_lane(warp, lane)

    @kept_results(256)
    def _runs_of_lane(self, warp: int, lane: int) -> Numbers:
        return np.flatnonzero((self.warp == warp) & (self.lanes >> np.uint32(lane) & 1 == 1))

    @cached_property
    def _runs_by_code(self) -> dict[tuple[int, int, int], Numbers]:
        """The runs of each (version, basic block, warp)."""
        warps = int(self.warp.max()) + 1 if len(self.warp) else 1
        key = (self._version * len(self.program.blocks) + self.block) * warps + self.warp
        order = np.argsort(key, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
        return {
            (int(self._version[part[0]]), int(self.block[part[0]]), int(self.warp[part[0]])): part
            for part in parts
            if len(part)
        }

    def runs_by_code(self) -> Iterator[tuple[tuple[Slot, ...], int, int, Numbers]]:
        """Yield the slots, basic block, warp and runs of all runs of one warp in one version of a block."""
        for (version, number, warp), runs in self._runs_by_code.items():
            yield self.recording.layouts[version].blocks[number].slots, number, warp, runs

    # ---- values ------------------------------------------------------------------------------------------------------

    def values(self, slot: Slot, runs: Numbers) -> Bits:
        """Return the bits of a slot in all lanes, of the shape (runs, lanes)."""
        places = (self._offset[runs] + slot.offset)[:, None] + np.arange(slot.count * slot.stride)
        return _lane_values(slot, np.ascontiguousarray(self.recording.payload[places]))

    @cached_property
    def _definitions(self) -> dict[str, list[tuple[int, int, Slot]]]:
        """The slots with results of each register by its name in the PTX, with version and basic block."""
        found: dict[str, list[tuple[int, int, Slot]]] = defaultdict(list)
        for version, layouts in enumerate(self.recording.layouts):
            for number, layout in enumerate(layouts.blocks):
                for slot in layout.slots:
                    if slot.role is SlotRole.RESULT:
                        found[_WEB.sub("", slot.register)].append((version, number, slot))
        return found

    def assigning_blocks(self, register: str) -> frozenset[int]:
        """Return the basic blocks that assign a register."""
        return frozenset(number for _, number, _ in self._definitions.get(_WEB.sub("", register), ()))

    def definition(self, register: str, thread: int, tick: int) -> Definition | None:
        """Return the last result of a register before a tick, None if it has none.

        One that is from before the window has the tick before the first one.
        """
        warp, lane = divmod(thread, WARP_SIZE)
        latest: tuple[int, int, Slot] | None = None
        for version, number, slot in self._definitions.get(_WEB.sub("", register), ()):
            runs = self._runs_by_lane(version, number, warp, lane)
            index = int(np.searchsorted(self.start[runs] + slot.position, tick)) - 1
            if index >= 0:
                at = int(self.start[runs[index]]) + slot.position
                if latest is None or at > latest[0]:
                    latest = at, int(runs[index]), slot
        if latest is None:
            bits = self._at_entry(_WEB.sub("", register), warp, lane)
            return None if bits is None else Definition(self.first - 1, bits)
        at, run, slot = latest
        return Definition(at, int(self.values(slot, np.array([run]))[0, lane]))

    @kept_results(4096)
    def _at_entry(self, register: str, warp: int, lane: int) -> int | None:
        """Return the bits of a register when the window begins, None where they do not matter any more."""
        entry = self.recording.entry
        number = NOWHERE if entry is None else int(entry.next_blocks[warp, lane])
        if entry is None or number == NOWHERE:
            return None
        saved = self.recording.layouts[entry.versions[warp]].saved
        # Of the parts of a register that are kept apart one at most is live.
        name = next((one for one in self._parts.get(register, ()) if one in entry.live[number] and one in saved), None)
        if name is None:
            return None
        slot = saved[name]
        raw = entry.contexts[warp : warp + 1, slot.offset : slot.offset + slot.count * slot.stride]
        return int(_lane_values(slot, np.ascontiguousarray(raw))[0, lane])

    @cached_property
    def _parts(self) -> dict[str, list[str]]:
        """The registers of the program by their name in the PTX."""
        found: dict[str, list[str]] = defaultdict(list)
        for name in self.program.registers:
            found[_WEB.sub("", name)].append(name)
        return found

    def assignments(self, register: str, thread: int) -> list[int]:
        """Return the ticks at which a thread assigns a register, in no order."""
        warp, lane = divmod(thread, WARP_SIZE)
        ticks: set[int] = set()
        for version, number, slot in self._definitions.get(_WEB.sub("", register), ()):
            ticks |= set((self.start[self._runs_by_lane(version, number, warp, lane)] + slot.position).tolist())
        return list(ticks)

    @kept_results(4096)
    def _runs_by_lane(self, version: int, number: int, warp: int, lane: int) -> Numbers:
        runs = self._runs_by_code.get((version, number, warp), np.zeros(0, dtype=np.int64))
        taken: Numbers = runs[self.lanes[runs] >> np.uint32(lane) & 1 == 1]
        return taken

    def latest_run(self, thread: int, blocks: Iterable[int], before: int) -> int | None:
        """Return the last run of one of some basic blocks by a thread before a run, None if there is none."""
        warp, lane = divmod(thread, WARP_SIZE)
        latest = -1
        for number in blocks:
            for version in range(len(self.recording.layouts)):
                runs = self._runs_by_lane(version, number, warp, lane)
                index = int(np.searchsorted(runs, before)) - 1
                latest = max(latest, int(runs[index]) if index >= 0 else -1)
        return latest if latest >= 0 else None

    def active(self, runs: Numbers) -> npt.NDArray[np.bool_]:
        """Return the lanes that execute each run, of the shape (runs, lanes)."""
        return (self.lanes[runs][:, None] >> _LANES & 1).astype(np.bool_)


def _lane_values(slot: Slot, raw: npt.NDArray[np.uint8]) -> Bits:
    """Return the bits of a slot in all lanes, given its bytes, both of the shape (runs, ...)."""
    if slot.shape.varying:
        if slot.bits == 1:
            parts = raw.reshape(len(raw), slot.count, slot.stride)[:, :, : WARP_SIZE // slot.count // 8]
            return np.unpackbits(parts.reshape(len(raw), -1), axis=1, bitorder="little").astype(np.uint64)
        return raw.view(f"<u{slot.bits // 8}")[:, :WARP_SIZE].astype(np.uint64)
    limit = np.uint64((1 << slot.bits) - 1)
    lanes = WARP_SIZE // slot.count
    bases = np.repeat(raw.view("<u8") & limit, lanes, axis=1)
    place = np.arange(WARP_SIZE, dtype=np.uint64) % np.uint64(lanes)
    with np.errstate(over="ignore"):
        values: Bits = (bases + place * np.uint64(slot.shape.step % (1 << 64))) & limit
    return values
