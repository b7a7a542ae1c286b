"""The accesses of a recorded block: each load and store of each lane, with its address and value, by time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.debug.access_table import ACCESS, Kind, Table
from gpuemu_lsp.engine.debug.copies import WORD, async_copies, unfollowed_writers
from gpuemu_lsp.engine.debug.external_writes import external_writes
from gpuemu_lsp.engine.debug.history import Bits, History, Numbers
from gpuemu_lsp.engine.emulator.codegen.core.recording_layout import Slot, SlotRole
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes, vector_length
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, flattened, split_operands
from gpuemu_lsp.engine.emulator.launch.recorder import MemoryPicture
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol

_Read: TypeAlias = Callable[[Operand, SlotRole], Bits]
_WIDEST: Final = 16
"""Bytes of the widest element."""
_ACCESSES = frozenset({"ld", "ldu", "st", "atom", "red"})


class Accesses:
    """The accesses of a history, and memory at its moments; with ``synchronous`` those of asynchronous copies are not.

    What a copy reads is looked up in the synchronous ones.
    """

    def __init__(self, history: History, *, synchronous: bool = False) -> None:
        self._with_copies = history.program.has_async_copies and not synchronous
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
        if self._with_copies:
            parts.append(self._copies())
        if not parts:
            return np.zeros(0, dtype=ACCESS)
        table = np.concatenate(parts)
        table = table[np.lexsort((table["thread"], table["tick"]))]
        self._update_without_result(table)
        if not self._has_external_writers:
            return table
        external = external_writes(table, self._pictures)
        table = np.concatenate([table, external])
        return table[np.argsort(table["tick"], kind="stable")] if len(external) else table

    @property
    def _has_external_writers(self) -> bool:
        """Whether anything but the block can write while it runs."""
        return math.prod(self._recording.grid) > 1 or bool(unfollowed_writers(self._history.program))

    @cached_property
    def writes(self) -> Table:
        """The accesses that have changed memory, and the external writes."""
        chosen: Table = self.table[(self.table["kind"] != Kind.LOAD) & ~self.table["refused"]]
        return chosen

    @cached_property
    def _ticks(self) -> Numbers:
        # A field of the table is not contiguous: each search would copy it.
        return np.ascontiguousarray(self.table["tick"])

    def between(self, thread: int, first: int, last: int) -> Table:
        """Return the accesses of a thread from a tick to another one, both included."""
        low, high = np.searchsorted(self._ticks, [first, last + 1])
        there = self.table[low:high]
        accesses: Table = there[(there["thread"] == thread) & (there["kind"] != Kind.EXTERNAL)]
        return accesses

    def own_writers(self, address: int, size: int) -> Table:
        """Return what the threads of the block wrote to some bytes, in order of time."""
        rows = self.writers(address, size)
        own: Table = rows[rows["kind"] != Kind.EXTERNAL]
        return own

    def writers(self, address: int, size: int, before: int | None = None) -> Table:
        """Return what wrote some bytes, in order of time; before a tick if one is given."""
        order, addresses = self._writes_by_address
        low, high = np.searchsorted(addresses, [max(address - _WIDEST + 1, 0), address + size])
        near = _overlapping(self.writes[np.sort(order[low:high])], address, size)
        return near if before is None else near[: np.searchsorted(near["tick"], before)]

    def last_writer(self, address: int, size: int, before: int) -> np.void | None:
        """Return what wrote some bytes last before a tick, None if they are as at the begin."""
        order, addresses = self._writes_by_address
        low, high = np.searchsorted(addresses, [max(address - _WIDEST + 1, 0), address + size]).tolist()
        limit = int(np.searchsorted(self._write_ticks, before))
        latest = -1
        while low < high:
            # The writes to one address, in order of time: a loop may have made very many.
            end = int(np.searchsorted(addresses, addresses[low], side="right"))
            index = int(np.searchsorted(order[low:end], limit)) - 1
            while index >= 0 and int(addresses[low]) + int(self.writes[order[low + index]]["size"]) <= address:
                index -= 1
            latest = max(latest, int(order[low + index]) if index >= 0 else -1)
            low = end
        return self.writes[latest] if latest >= 0 else None

    @cached_property
    def _write_ticks(self) -> Numbers:
        return np.ascontiguousarray(self.writes["tick"])

    @cached_property
    def _writes_by_address(self) -> tuple[Numbers, Bits]:
        """The order of the writes by address, and their addresses in that order."""
        order = np.argsort(self.writes["address"], kind="stable")
        return order, np.ascontiguousarray(self.writes["address"][order])

    def readers(self, address: int, size: int, after: int = -1) -> Table:
        """Return what read some bytes after a tick, in order of time."""
        later = self.table[np.searchsorted(self._ticks, after, side="right") :]
        return _overlapping(later[np.isin(later["kind"], [Kind.LOAD, Kind.UPDATE])], address, size)

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
                data[place], valid[place] = content[place - first], write["kind"] != Kind.ISSUE
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
        ticks = np.broadcast_to((history.start[runs] + position)[:, None], active.shape)
        threads = np.broadcast_to(np.arange(WARP_SIZE) + WARP_SIZE * warp, active.shape)
        for index, values in enumerate(_values(instruction, address, read)):
            part = np.zeros(int(active.sum()), dtype=ACCESS)
            part["tick"] = part["cause"] = ticks[active]
            part["thread"] = threads[active]
            elements = places + np.uint64(index * size)
            # Each element for itself, as generated code does; the first with the alignment of the whole vector.
            alignment = size if index else size * vector_length(instruction)
            refused = self._refused(instruction, elements, size, alignment, warp)
            part["address"] = elements[active]
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
                places = places + np.uint64(recording.local) + self._threads(warp) * np.uint64(self._frame)
        return places

    def _symbol(self, symbol: Symbol) -> int:
        """Return the address of a variable: in its window, or of a global one in the arena."""
        for window in (self._history.program.shared, self._history.program.local):
            if symbol.name in window:
                return window[symbol.name].offset + symbol.offset
        return self._recording.variables.get(symbol.name, 0) + symbol.offset

    def _refused(
        self, instruction: Instruction, places: Bits, size: int, alignment: int, warp: int
    ) -> npt.NDArray[np.bool_]:
        """Return whether the emulator does not execute an access of ``size`` bytes at each place.

        It is misaligned, out of bounds of the memory that it is meant for, or a store to what may only be read.
        """
        allowed = np.zeros(places.shape, dtype=np.bool_)
        for picture in self._pictures:
            offsets = (places - np.uint64(picture.address)).astype(np.int64)
            there = (offsets >= 0) & (offsets + size <= len(picture.data))
            if there.any():
                bytes_allowed = picture.readable if _kind(instruction) is Kind.LOAD else picture.writable
                # Prefix sums: the number of allowed bytes up to each place.
                sums = np.concatenate([[0], np.cumsum(bytes_allowed)])
                allowed[there] = sums[offsets[there] + size] - sums[offsets[there]] == size
        if memory_space(instruction) == "local":
            # The memory of a thread is next to that of another one.
            frames = np.uint64(self._recording.local) + self._threads(warp) * np.uint64(self._frame)
            allowed &= (places >= frames) & (places + np.uint64(size) <= frames + np.uint64(self._frame))
        allowed &= places % np.uint64(alignment) == 0
        return ~allowed

    @staticmethod
    def _threads(warp: int) -> Bits:
        return np.arange(WARP_SIZE, dtype=np.uint64) + np.uint64(WARP_SIZE * warp)

    def _copies(self) -> Table:
        """Return the accesses of asynchronous copies: what they read, and their issue and arrival at the target."""
        synchronous = Accesses(self._history, synchronous=True)
        rows: list[tuple[int, int, int, int, int, int, Kind, bool]] = []
        for copy in async_copies(self._history, self._operand):
            data = copy.data
            if data is None:
                given, _ = synchronous.memory(copy.source, max(copy.given, 1), copy.issued)
                data = given[: copy.given].ljust(copy.size, b"\0")
            for first in range(0, copy.size, WORD):
                value = int.from_bytes(data[first : first + WORD], "little")
                common = copy.issued, value, copy.thread, WORD
                target = copy.target + first
                refused = self.picture(target) is None
                if copy.data is None:
                    if first < copy.given:
                        rows.append((copy.issued, *_row(common, copy.source + first), Kind.LOAD, False))
                    poison = int.from_bytes(bytes([self._recording.fill]) * WORD, "little")
                    issue = copy.issued, poison, copy.thread, WORD
                    rows.append((copy.issued, *_row(issue, target), Kind.ISSUE, refused))
                if copy.delivered is not None:
                    rows.append((copy.delivered, *_row(common, target), Kind.STORE, refused))
        return np.array(rows, dtype=ACCESS)

    def _operand(self, operand: Operand, thread: int, tick: int) -> int | None:
        """Return the bits of an operand of a copy, or the place of an address."""
        if isinstance(operand, Immediate):
            return operand.bits
        if isinstance(operand, Register):
            definition = self._history.definition(operand.name, thread, tick)
            return definition.bits if definition is not None else None
        if not isinstance(operand, Address):
            return None
        base = (
            self._symbol(operand.base)
            if isinstance(operand.base, Symbol)
            else self._operand(operand.base, thread, tick)
        )
        if base is None:
            return None
        place = base + operand.offset
        # An address in the window of shared memory, or of global memory.
        return place + self._recording.shared if place < self._recording.shared_size else place

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


def _row(common: tuple[int, int, int, int], address: int) -> tuple[int, int, int, int, int]:
    """Return the fields of a row from its cause to its size, given the cause, value, thread and size."""
    cause, value, thread, size = common
    return cause, address, value, thread, size


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


def _overlapping(table: Table, address: int, size: int) -> Table:
    low, high = np.uint64(address), np.uint64(address + size)
    near: Table = table[(table["address"] < high) & (table["address"] + table["size"] > low)]
    return near


def _last_of_each(writes: Table) -> Table:
    """Return, in order of time, the last write to each address with each size: others may overlap with it."""
    keys = writes["address"][::-1] * np.uint64(16) + writes["size"][::-1]
    _, last = np.unique(keys, return_index=True)
    latest: Table = writes[np.sort(len(writes) - 1 - last)]
    return latest
