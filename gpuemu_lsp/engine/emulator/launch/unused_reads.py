"""Reads whose value a thread provably does not use: a race with such a read has no consequence.

``v = x[min(i, n - 1)]; if (i < n) y[i] = v;`` loads in every thread, so that no thread leaves the array, and the last
threads discard the value. When the race detector finds a race, it asks here whether the reading thread is one of them.
Everything that decides is known by then: thread and block indices and the kernel's arguments. A value is unused if each
instruction that it reaches is one that the thread cannot reach, or a selection of the other operand.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.analysis.thread_affine import PerThreadValues
from gpuemu_lsp.engine.emulator.analysis.value_flow import DefinitionUses
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, is_collective, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_written
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch
from gpuemu_lsp.engine.ptx.model import Instruction, Register, Symbol

_CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint32)

_EFFECTS = frozenset(
    {
        "st",
        "sust",
        "tex",
        "tld4",
        "suld",
        "atom",
        "red",
        "cp",
        "call",
        "ld",
        "bar",
        "barrier",
        "wmma",
        "mma",
        "mbarrier",
        "activemask",
    }
)
"""Opcodes whose operands are used whatever becomes of a result."""


class UnusedReads:
    """Answers the race detector's question, whether lanes of a warp use the value that a site has loaded."""

    def __init__(self, prepared: PreparedLaunch) -> None:
        self._prepared = prepared
        self._uses: DefinitionUses | None = None
        self._blocks: dict[int, PerThreadValues] = {}
        self._unused: dict[tuple[int, int], list[int]] = {}
        self._reached: dict[tuple[int, str], tuple[int, ...]] = {}
        self._call = _CALL(self._answer)
        # Registers of recursive functions are saved and restored, which the uses of a definition do not show.
        if not prepared.kernel.program.recursive:
            prepared.launch.set(LaunchRecord.UNUSED_READ_CALLBACK, ctypes.cast(self._call, ctypes.c_void_p).value or 0)

    def _answer(self, site: int, thread: int, lanes: int) -> int:
        """Return 1 if none of the ``lanes`` of a thread's warp uses what ``site`` has loaded, else 0."""
        # The asynchronous proxy, which is not a thread of the block, uses what it reads.
        if thread & 1023 >= self._prepared.warp_count * WARP_SIZE:
            return 0
        key = site, thread >> 10
        masks = self._unused.get(key)
        if masks is None:
            masks = self._unused[key] = _lane_masks(self._unused_by_thread(*key))
        # One question covers the lanes of a merged record: the race has a consequence if it has one for any of them.
        return int(lanes & ~masks[(thread & 1023) // WARP_SIZE] == 0)

    def _unused_by_thread(self, site: int, block: int) -> npt.NDArray[np.bool_]:
        """Return for each thread of a block whether it provably does not use the value that ``site`` loads."""
        if self._uses is None:
            self._uses = DefinitionUses(self._prepared.kernel.program)
        values = self._values(block)
        unused = np.ones(self._prepared.threads, dtype=np.bool_)
        load = self._uses.instructions[site]
        # An asynchronous copy has no register whose uses could be followed.
        if load.opcode != "ld":
            return ~unused
        # Threads in which the loaded value, or one computed from it, may be in a register: sets that only grow.
        holders = {(site, name): unused.copy() for name in registers_written(load)}
        left = list(holders)
        while left:
            at, name = left.pop()
            holding = holders[at, name]
            for use in self._uses_of(at, name):
                one = self._uses.instructions.get(use)
                if one is None:
                    # The value decides a branch.
                    unused &= ~(holding & values.reaching(self._uses.block_of(use)))
                    continue
                here = holding & values.reaching(self._uses.block_of(use), one.guard)
                if one.opcode in _EFFECTS or is_collective(one) or not registers_written(one):
                    unused &= ~here
                    continue
                # Both operands of a selection are computed, one of them for nothing.
                if one.opcode == "selp":
                    here &= _takes(one, name, values)
                for key in ((use, to) for to in registers_written(one)):
                    before = holders.get(key, np.zeros_like(here))
                    if (here & ~before).any():
                        holders[key] = here | before
                        left.append(key)
        return unused

    def _uses_of(self, site: int, name: str) -> tuple[int, ...]:
        """Return the sites that may read the value that ``site`` gives a register; they are the same in all blocks."""
        assert self._uses is not None
        key = site, name
        if key not in self._reached:
            self._reached[key] = tuple(self._uses.uses(site, name))
        return self._reached[key]

    def _values(self, block: int) -> PerThreadValues:
        """Return what a block's threads compute from indices and arguments."""
        if block not in self._blocks:
            # Blocks are asked about one after another: a few are enough.
            if len(self._blocks) >= 8:
                self._blocks.clear()
            request = self._prepared.request
            x, y, _ = request.grid
            index = dict(zip("xyz", (block % x, block // x % y, block // (x * y)), strict=True))
            known = {f"%ctaid.{axis}": value for axis, value in index.items()}
            known |= {f"%nctaid.{axis}": size for axis, size in zip("xyz", request.grid, strict=True)}
            known |= dict(self._arguments())
            self._blocks[block] = PerThreadValues(self._prepared.kernel.program, request.block, known)
        return self._blocks[block]

    def _arguments(self) -> Iterator[tuple[str, int]]:
        """Yield the registers that hold scalar arguments, with their values as bit patterns."""
        program = self._prepared.kernel.program
        params = self._prepared.launch.get(LaunchRecord.PARAMS)
        for one in (instruction for block in program.blocks for instruction in block.code):
            address = address_operand(one)
            if one.opcode != "ld" or memory_space(one) != "param" or one.guard is not None or address is None:
                continue
            target, base = one.operands[0], address.base
            if not isinstance(target, Register) or not isinstance(base, Symbol) or base.name not in program.params:
                continue
            size = type_bytes(access_type(one))
            # A narrower load is extended, by a rule that depends on its type.
            if size * 8 == PerThreadValues.width(program.registers.get(target.name, "")):
                offset = program.params[base.name].offset + base.offset + address.offset
                yield target.name, int.from_bytes(ctypes.string_at(params + offset, size), "little")


def _lane_masks(threads: npt.NDArray[np.bool_]) -> list[int]:
    """Return flags of the threads of a block as one mask of lanes per warp."""
    padded = np.zeros(-(-threads.size // WARP_SIZE) * WARP_SIZE, dtype=np.bool_)
    padded[: threads.size] = threads
    return [int(mask) for mask in np.packbits(padded, bitorder="little").view("<u4")]


def _takes(one: Instruction, name: str, values: PerThreadValues) -> npt.NDArray[np.bool_]:
    """Return in which threads the result of a selection may depend on a register."""
    _, first, second, choice = one.operands
    chosen = values.value(choice.name) if isinstance(choice, Register) else None
    if chosen is None or Register(name) == choice or first == second:
        return np.array(True)
    takes: npt.NDArray[np.bool_] = chosen != 0 if first == Register(name) else chosen == 0
    return takes
