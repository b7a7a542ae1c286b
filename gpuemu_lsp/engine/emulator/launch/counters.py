"""Performance counters of a launch, computed from what counting versions record."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import TRACE_LIMIT, LaunchRecord, SiteCounters, TracedAccess
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, type_bytes, vector_length
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.emulator.launch import memory_transactions
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.memory_transactions import Flags, Numbers
from gpuemu_lsp.engine.emulator.matrix.product import product_of
from gpuemu_lsp.engine.execution import Activity, Counters, Traffic
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction

_SPACES = ("global", "shared")
_SPACE_OF = {"buffer": 0, "variable": 0, "heap": 0, "shared": 1}
"""Memory space of a region on a GPU. Local memory, stacks and parameters are not counted."""
_REQUESTS, _BYTES, _UNITS, _LEAST = range(4)
"""Rows of a space's table, in the order of the fields of ``Traffic``; columns are sites."""
_OPERATIONS = {"add": 1, "sub": 1, "mul": 1, "fma": 2, "mad": 2}
_NUMBERS = {"f16": 1, "bf16": 1, "f32": 1, "f64": 1, "f16x2": 2, "bf16x2": 2, "f32x2": 2}
"""Floating-point types with their numbers per register."""

_CALL = ctypes.CFUNCTYPE(None)


class CounterCollector:
    """Counters of one launch, with the tables that generated code fills."""

    def __init__(self, program: Program, arena: Arena, launch: Record) -> None:
        self._arena, self._launch = arena, launch
        self._sites = _sites(program)
        count = max(len(self._sites), 1)
        self._site_counters = Record(count * SiteCounters.SIZE)
        self._trace = Record(TRACE_LIMIT * TracedAccess.SIZE)
        self._sizes = np.array([_size(one) if one is not None else 0 for _, one in self._sites], dtype=np.int64)
        self._traffic = np.zeros((len(_SPACES), 4, count), dtype=np.int64)
        self._touched = np.zeros(arena.capacity // memory_transactions.SECTOR, dtype=np.bool_)
        self._call = _CALL(self._evaluate_trace)
        launch.set(LaunchRecord.SITE_COUNTERS, self._site_counters.address)
        launch.set(LaunchRecord.TRACE, self._trace.address)
        launch.set(LaunchRecord.TRACE_CALLBACK, ctypes.cast(self._call, ctypes.c_void_p).value or 0)

    def counters(self) -> Counters:
        """Return the counters of a launch that has ended."""
        self._evaluate_trace()
        counts = self._site_counters.bytes.view(np.int64).reshape(-1, SiteCounters.SIZE // 8)
        activity: list[Activity] = []
        operations = 0
        for site, (first, instruction) in enumerate(self._sites):
            if instruction is None:
                continue
            executions, lanes = map(int, counts[site, 2:] if instruction.guard is not None else counts[first, :2])
            if executions:
                activity.append(Activity(instruction.location, executions, lanes))
                operations += _operations(instruction, executions, lanes)
        touched = int(self._touched.sum()) * memory_transactions.SECTOR
        return Counters(tuple(activity), tuple(self._all_traffic()), operations, touched)

    def _all_traffic(self) -> list[Traffic]:
        result = []
        for number, space in enumerate(_SPACES):
            table = self._traffic[number]
            for site in np.flatnonzero(table[_REQUESTS]).tolist():
                instruction = self._sites[site][1]
                assert instruction is not None
                numbers = (int(value) for value in table[:, site])
                result.append(Traffic(instruction.location, instruction.name, space, *numbers))
        return result

    def _evaluate_trace(self) -> None:
        """Evaluate all recorded accesses and empty the table.

        Thousands at a time, as arrays: one by one in Python would take far longer than the kernel.
        """
        count = self._launch.get(LaunchRecord.TRACE_COUNT)
        self._launch.set(LaunchRecord.TRACE_COUNT, 0)
        raw = self._trace.bytes[: count * TracedAccess.SIZE].reshape(count, TracedAccess.SIZE)
        heads = np.ascontiguousarray(raw[:, : TracedAccess.ADDRESSES]).view(np.uint32)
        addresses = np.ascontiguousarray(raw[:, TracedAccess.ADDRESSES :]).view(np.int64)
        sites = heads[:, 0].astype(np.int64)
        active = (heads[:, 1:] >> np.arange(WARP_SIZE, dtype=np.uint32) & 1).astype(np.bool_)
        offsets = addresses - self._arena.address
        # An address outside the arena is a finding, not traffic.
        active &= (offsets >= 0) & (offsets < self._arena.size)
        # By the first active lane: an access to several spaces at once is an error, whose traffic does not matter.
        spaces = self._spaces(addresses[np.arange(count), active.argmax(axis=1)])
        spaces[~active.any(axis=1)] = -1
        there = spaces == 0
        self._global(sites[there], addresses[there], active[there])
        for size in np.unique(self._sizes[sites[spaces == 1]]).tolist():
            there = (spaces == 1) & (self._sizes[sites] == size)
            units, least = memory_transactions.passes(addresses[there], active[there], size)
            self._add(1, sites[there], active[there], units, least)

    def _global(self, sites: Numbers, addresses: Numbers, active: Flags) -> None:
        units = memory_transactions.sectors(addresses, active)
        self._add(0, sites, active, units, memory_transactions.least_sectors(addresses, active, self._sizes[sites]))
        self._touched[(addresses[active] - self._arena.address) // memory_transactions.SECTOR] = True

    def _add(self, space: int, sites: Numbers, active: Flags, units: Numbers, least: Numbers) -> None:
        table = self._traffic[space]
        requested = active.sum(axis=1) * self._sizes[sites]
        for row, numbers in ((_REQUESTS, np.ones_like(sites)), (_BYTES, requested), (_UNITS, units), (_LEAST, least)):
            np.add.at(table[row], sites, numbers)

    def _spaces(self, addresses: Numbers) -> npt.NDArray[np.int64]:
        """Return the index of each address's space, -1 for spaces that are not counted."""
        regions = sorted(self._arena.all_regions, key=lambda region: region.address)
        starts = np.array([region.address for region in regions], dtype=np.int64)
        spaces = np.array([*(_SPACE_OF.get(region.kind, -1) for region in regions), -1], dtype=np.int64)
        return spaces[np.searchsorted(starts, addresses, side="right") - 1]


def _sites(program: Program) -> list[tuple[int, Instruction | None]]:
    """Return, for each site, the first site of its basic block, and its instruction."""
    result: list[tuple[int, Instruction | None]] = []
    for block in program.blocks:
        first = len(result)
        result += [(first, one) for one in block.code]
        result.append((first, getattr(block.terminator, "instruction", None)))
    return result


def _size(instruction: Instruction) -> int:
    """Return the bytes that a lane reads or writes, 0 for instructions that access no memory."""
    if instruction.opcode in ("ld", "st", "ldu", "atom", "red"):
        return type_bytes(access_type(instruction)) * vector_length(instruction)
    if instruction.opcode == "cp" and len(instruction.operands) > 2 and isinstance(instruction.operands[2], Immediate):
        return instruction.operands[2].bits
    return 0


def _operations(instruction: Instruction, executions: int, lanes: int) -> int:
    """Return the floating-point operations of one instruction; a fused multiply-add is two."""
    if instruction.opcode == "mma":
        product = product_of(instruction)
        floating = product is not None and product.d.startswith(("f", "bf"))
        return 2 * executions * product.m * product.n * product.k if product is not None and floating else 0
    each = _OPERATIONS.get(instruction.opcode, 0)
    return lanes * each * _NUMBERS.get(instruction.modifiers[-1], 0) if each else 0
