"""The accesses of a recorded block: each load and store of each lane, with its address and value, by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.debug.history import Bits, History, Numbers
from gpuemu_lsp.engine.emulator.codegen.core.recording_layout import Slot, SlotRole
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes, vector_length
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, flattened, split_operands
from gpuemu_lsp.engine.emulator.launch.recorder import MemoryPicture
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol


class Kind(IntEnum):
    """What an access does."""

    LOAD = 0
    STORE = 1
    UPDATE = 2  # an atomic one, which reads and writes


ACCESS: Final = np.dtype(
    [
        ("tick", "<i8"),
        ("address", "<u8"),
        ("value", "<u8"),
        ("thread", "<i4"),
        ("size", "u1"),
        ("kind", "u1"),
        ("refused", "?"),
    ]
)
"""One element of an access: what it loads or leaves in memory. A refused store leaves nothing there."""

Table: TypeAlias = npt.NDArray[np.void]
"""Rows of :data:`ACCESS`."""
_Read: TypeAlias = Callable[[Operand, SlotRole], Bits]
_ACCESSES = frozenset({"ld", "ldu", "st", "atom", "red"})


class Accesses:
    """The accesses of a history, and memory at its moments."""

    def __init__(self, history: History) -> None:
        self._history, self._recording = history, history.recording
        self._frame = max(history.program.local_bytes, 1)
        self._pictures = sorted(self._recording.memory, key=lambda picture: picture.address)

    @cached_property
    def table(self) -> Table:
        """All accesses, as rows of :data:`ACCESS` in order of time."""
        parts: list[Table] = []
        for slots, number, warp, runs in self._history.runs_by_code():
            for position, instruction in enumerate(self._history.program.blocks[number].code):
                if instruction.opcode in _ACCESSES and memory_space(instruction) != "param":
                    here = [slot for slot in slots if slot.position == position]
                    parts += self._accesses(instruction, position, here, runs, warp)
        if not parts:
            return np.zeros(0, dtype=ACCESS)
        table = np.concatenate(parts)
        table = table[np.lexsort((table["thread"], table["tick"]))]
        self._update_without_result(table)
        return table

    @cached_property
    def writes(self) -> Table:
        """The accesses that have changed memory."""
        chosen: Table = self.table[(self.table["kind"] != Kind.LOAD) & ~self.table["refused"]]
        return chosen

    def of_thread_at(self, thread: int, tick: int) -> Table:
        """Return the accesses of a thread at a tick."""
        low, high = np.searchsorted(self.table["tick"], [tick, tick + 1])
        there = self.table[low:high]
        own: Table = there[there["thread"] == thread]
        return own

    def writers(self, address: int, size: int, before: int | None = None) -> Table:
        """Return what wrote some bytes, in order of time; before a tick if one is given."""
        return _near(_until(self.writes, before), address, size)

    def readers(self, address: int, size: int, after: int = -1) -> Table:
        """Return what read some bytes after a tick, in order of time."""
        reads = self.table[self.table["kind"] != Kind.STORE]
        reads = reads[np.searchsorted(reads["tick"], after, side="right") :]
        return _near(reads, address, size)

    def picture(self, address: int) -> MemoryPicture | None:
        """Return the region that an address lies in, as it was at the start."""
        for one in self._pictures:
            if one.address <= address < one.address + len(one.data):
                return one
        return None

    def memory(self, address: int, size: int, tick: int) -> tuple[bytes, npt.NDArray[np.bool_]]:
        """Return some bytes of memory before a tick, and which of them have a value."""
        data = np.full(size, self._recording.fill, dtype=np.uint8)
        valid = np.zeros(size, dtype=np.bool_)
        for picture in self._pictures:
            low, high = max(picture.address, address), min(picture.address + len(picture.data), address + size)
            if low < high:
                there = slice(low - picture.address, high - picture.address)
                data[low - address : high - address] = picture.data[there]
                valid[low - address : high - address] = picture.initialised[there]
        for write in _last_of_each(self.writers(address, size, tick)):
            content = int(write["value"]).to_bytes(8, "little")[: write["size"]]
            first = int(write["address"]) - address
            for place in range(max(first, 0), min(first + len(content), size)):
                data[place], valid[place] = content[place - first], True
        return data.tobytes(), valid

    # ---- the table ---------------------------------------------------------------------------------------------------

    def _accesses(
        self, instruction: Instruction, position: int, slots: Sequence[Slot], runs: Numbers, warp: int
    ) -> Iterator[Table]:
        """Yield the elements of an instruction in all runs of one warp."""
        address = address_operand(instruction)
        if address is None or instruction.modifiers[:1] == ("call",):
            return
        history = self._history
        named = {(slot.role, slot.register): slot for slot in slots}

        def read(operand: Operand, role: SlotRole) -> Bits:
            slot = named.get((role, operand.name)) if isinstance(operand, Register) else None
            if slot is not None:
                return history.values(slot, runs)
            bits = operand.bits % (1 << 64) if isinstance(operand, Immediate) else 0
            return np.full((len(runs), WARP_SIZE), bits, dtype=np.uint64)

        active = history.active(runs)
        if instruction.guard is not None:
            holds = read(instruction.guard.register, SlotRole.GUARD) != 0
            active &= ~holds if instruction.guard.negated else holds
        places = self._addresses(instruction, address, read, len(runs), warp)
        size, kind = type_bytes(access_type(instruction)), _kind(instruction)
        # A GPU executes the access of a lane as a whole or not at all.
        whole = size * vector_length(instruction)
        refused = ~self._is_writable(places, whole) if kind is not Kind.LOAD else np.zeros_like(active)
        ticks = np.broadcast_to((history.start[runs] + position)[:, None], active.shape)
        threads = np.broadcast_to(np.arange(WARP_SIZE) + WARP_SIZE * warp, active.shape)
        for index, values in enumerate(_values(instruction, address, read)):
            part = np.zeros(int(active.sum()), dtype=ACCESS)
            part["tick"], part["thread"] = ticks[active], threads[active]
            part["address"] = (places + np.uint64(index * size))[active]
            part["value"], part["size"], part["kind"] = values[active], size, kind
            part["refused"] = refused[active]
            yield part

    def _addresses(self, instruction: Instruction, address: Address, read: _Read, runs: int, warp: int) -> Bits:
        base, space, recording = address.base, memory_space(instruction), self._recording
        places: Bits
        if isinstance(base, Symbol):
            places = np.full((runs, WARP_SIZE), self._symbol(base), dtype=np.uint64)
        else:
            places = read(base, SlotRole.ADDRESS)
        with np.errstate(over="ignore"):
            places = places + np.uint64(address.offset % (1 << 64))
            if space == "shared":
                places = places + np.uint64(recording.shared)
            elif space == "local":
                threads = np.arange(WARP_SIZE, dtype=np.uint64) + np.uint64(WARP_SIZE * warp)
                places = places + np.uint64(recording.local) + threads * np.uint64(self._frame)
        return places

    def _symbol(self, symbol: Symbol) -> int:
        """Return the address of a variable: in its window, or of a global one in the arena."""
        for window in (self._history.program.shared, self._history.program.local):
            if symbol.name in window:
                return window[symbol.name].offset + symbol.offset
        return self._recording.variables.get(symbol.name, 0) + symbol.offset

    def _is_writable(self, places: Bits, size: int) -> npt.NDArray[np.bool_]:
        """Return whether a store of ``size`` bytes to each place is executed: aligned, and to writable bytes alone."""
        writable = np.zeros(places.shape, dtype=np.bool_)
        for picture in self._pictures:
            offsets = (places - np.uint64(picture.address)).astype(np.int64)
            there = (offsets >= 0) & (offsets + size <= len(picture.data))
            if there.any():
                # Prefix sums: the number of writable bytes up to each place.
                sums = np.concatenate([[0], np.cumsum(picture.writable)])
                writable[there] = sums[offsets[there] + size] - sums[offsets[there]] == size
        writable &= places % np.uint64(size) == 0
        return writable

    def _update_without_result(self, table: Table) -> None:
        """Replace the operands of ``red`` in the table by what they leave in memory, one after another."""
        updates = np.flatnonzero((table["kind"] == Kind.UPDATE) & ~table["refused"])
        latest: dict[int, int] = {}
        for row in updates.tolist():
            entry = table[row]
            instruction = self._history.instruction(int(entry["tick"]))
            if instruction is None or instruction.opcode != "red":
                continue
            address, size = int(entry["address"]), int(entry["size"])
            before = table[latest.get(address, 0) : row]
            stores = before[(before["address"] == address) & (before["kind"] != Kind.LOAD) & ~before["refused"]]
            old = int(stores["value"][-1]) if len(stores) else self._at_start(address, size)
            values = (np.array([bits], dtype=np.uint64) for bits in (old, int(entry["value"])))
            found, operand = values
            table["value"][row] = updated(instruction, found, [operand])[0]
            latest[address] = row

    def _at_start(self, address: int, size: int) -> int:
        picture = self.picture(address)
        if picture is None:
            return 0
        offset = address - picture.address
        return int.from_bytes(picture.data[offset : offset + size].tobytes(), "little")


def _kind(instruction: Instruction) -> Kind:
    return {"ld": Kind.LOAD, "ldu": Kind.LOAD, "st": Kind.STORE}.get(instruction.opcode, Kind.UPDATE)


def _values(instruction: Instruction, address: Address, read: _Read) -> Iterator[Bits]:
    """Yield, for each element, what an access loads or leaves in memory."""
    written, sources = split_operands(instruction)
    if _kind(instruction) is Kind.LOAD:
        for operand in flattened(written):
            yield read(operand, SlotRole.RESULT)
        return
    stored = [read(operand, SlotRole.SOURCE) for operand in flattened(sources) if operand != address]
    if _kind(instruction) is Kind.STORE:
        yield from stored
    elif written:
        old = read(next(flattened(written)), SlotRole.RESULT)
        yield updated(instruction, old, stored)
    else:
        yield stored[0]


def updated(instruction: Instruction, old: Bits, operands: Sequence[Bits]) -> Bits:
    """Return what an atomic instruction leaves in memory, from what it found there and its operands."""
    type_ = access_type(instruction)
    size, words = type_bytes(type_), set(instruction.modifiers)
    kind = f"<{ {'f': 'f', 's': 'i'}.get(type_[0], 'u') }{size}"
    first, second = (_as(values, kind, size) for values in (old, operands[0]))
    with np.errstate(all="ignore"):
        if "cas" in words:
            return np.where(old == operands[0], operands[1], old)
        if "inc" in words:
            result = np.where(first >= second, 0, first + 1)
        elif "dec" in words:
            result = np.where((first == 0) | (first > second), second, first - 1)
        else:
            operation = next((one for word, one in _OPERATIONS.items() if word in words), None)
            result = second if operation is None else operation(first, second)
    return np.ascontiguousarray(result.astype(kind)).view(f"<u{size}").astype(np.uint64)


_OPERATIONS: Final = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _as(values: Bits, kind: str, size: int) -> npt.NDArray[Any]:
    return np.ascontiguousarray(values.astype(f"<u{size}")).view(kind)


def _until(table: Table, tick: int | None) -> Table:
    return table if tick is None else table[: np.searchsorted(table["tick"], tick)]


def _near(table: Table, address: int, size: int) -> Table:
    low, high = np.uint64(address), np.uint64(address + size)
    near: Table = table[(table["address"] < high) & (table["address"] + table["size"] > low)]
    return near


def _last_of_each(writes: Table) -> Table:
    """Return, in order of time, the last write to each address with each size: others may overlap with it."""
    keys = writes["address"][::-1] * np.uint64(16) + writes["size"][::-1]
    _, last = np.unique(keys, return_index=True)
    latest: Table = writes[np.sort(len(writes) - 1 - last)]
    return latest
