"""The device runtime: ``printf``, ``assert``, ``malloc`` and ``free`` of device code, in Python."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.records import lanes_of
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import BulkOperation
from gpuemu_lsp.engine.emulator.codegen.instructions.device_runtime import FUNCTIONS, ROWS
from gpuemu_lsp.engine.emulator.codegen.instructions.textures import TextureFault
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.device_memory.memory import HeapBlocks
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region

_SPECIFICATION = re.compile(rb"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|t|j|L)?([diouxXeEfFgGaAcsp%])")

HEAP_BYTES = 8 << 20
"""Size of the device heap unless a program requests more (``cudaLimitMallocHeapSize``)."""

_HEAP_ALIGNMENT = 16
_HEAP_GAP = 64
"""Unaddressable bytes between allocations, so that an overrun of one does not reach the next."""

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_int)


class Heap:
    """Heap of device ``malloc``: allocates from a region in order; unallocated and freed bytes are not addressable.

    Freed memory is never allocated again, so that a use after free is reported. ``blocks`` are those of earlier
    launches, if their memory lasts.
    """

    def __init__(self, arena: Arena, region: Region, fresh: int, blocks: HeapBlocks | None = None) -> None:
        self._arena, self._region, self._fresh = arena, region, fresh
        self._blocks = blocks if blocks is not None else HeapBlocks(region.address)

    def allocate(self, size: int) -> int:
        """Return the address of ``size`` fresh bytes, or 0 when the heap is exhausted (as for a size of 0)."""
        end = self._blocks.next + size
        if size == 0 or end > self._region.address + self._region.size:
            return 0
        address = self._blocks.next
        self._arena.shadow(address, size)[:] = self._fresh
        self._blocks.sizes[address] = size
        self._blocks.next = -(-(end + _HEAP_GAP) // _HEAP_ALIGNMENT) * _HEAP_ALIGNMENT
        return address

    def free(self, address: int) -> None:
        """Free an allocation. Any other address is ignored: CUDA leaves that case undefined, and no rule covers it."""
        size = self._blocks.sizes.pop(address, 0)
        if size:
            self._arena.shadow(address, size)[:] &= 255 & ~(Shadow.ADDRESSABLE | Shadow.INITIALISED)


class DeviceRuntime:
    """Serves the calls of device code; ``printed`` is the first ``max_printed`` bytes of their output.

    ``interrupted`` says that an interrupt came during a call, when ``on_interrupt`` was called. ``is_over`` says of the
    site of a call that the launch has ended: nothing is done any more.
    """

    def __init__(self, arena: Arena, max_printed: int) -> None:
        self._arena = arena
        self._max_printed = max_printed
        self._printed: list[str] = []
        self._size = 0
        self.assertion: str | None = None
        self.heap: Heap | None = None
        self.bulk: Callable[[int, int, int, int], None] | None = None
        self.textures: Callable[[int, int, int, int], None] | None = None
        self.interrupted = False
        self.on_interrupt: Callable[[], None] = lambda: None
        self.is_over: Callable[[int], bool] = lambda site: False
        self._function = CALLBACK(self._called)

    @property
    def address(self) -> int:
        """Address that generated code calls."""
        return ctypes.cast(self._function, ctypes.c_void_p).value or 0

    @property
    def printed(self) -> str:
        """Everything printed so far."""
        return "".join(self._printed)

    def _called(self, context: int, site: int, mask: int, which: int) -> None:
        if self.interrupted or self.is_over(site):
            return
        try:
            self._serve(context, site, mask, which)
        except KeyboardInterrupt:
            # It cannot pass through generated code: the caller of that raises it again.
            self.interrupted = True
            self.on_interrupt()

    def _serve(self, context: int, site: int, mask: int, which: int) -> None:
        if which & 0xFF >= TextureFault.NO_TEXTURE:
            assert self.textures is not None
            self.textures(context, site, mask, which)
            return
        if which >= BulkOperation.TENSOR_LOAD:
            assert self.bulk is not None
            self.bulk(context, site, mask, which)
            return
        # Lane after lane, in order: the lines of a warp's printf appear by thread number.
        rows = [np.ctypeslib.as_array((ctypes.c_int64 * 32).from_address(context + offset)) for offset in ROWS]
        for lane in lanes_of(mask):
            values = [int(row[lane]) & 0xFFFFFFFFFFFFFFFF for row in rows]
            rows[0][lane] = self._answer(which, values)

    def _answer(self, which: int, values: list[int]) -> int:
        if which == FUNCTIONS["vprintf"]:
            return self._print(values[0], values[1])
        if which == FUNCTIONS["__assertfail"]:
            text = self._arena.string(values[0]).decode(errors="replace")
            function = self._arena.string(values[3]).decode(errors="replace")
            self.assertion = f"assertion `{text}` failed in {function}" if function else f"assertion `{text}` failed"
            return 0
        if self.heap is not None and which == FUNCTIONS["malloc"]:
            return self.heap.allocate(values[0])
        if self.heap is not None and which == FUNCTIONS["free"]:
            self.heap.free(values[0])
        return 0

    def _print(self, format_: int, arguments: int) -> int:
        """Keep the text, and return the number of arguments, as device ``printf`` does (not that of characters)."""
        template = self._arena.string(format_)
        if self._size < self._max_printed:
            text = format_device(self._arena, template, arguments)
            self._printed.append(text)
            self._size += len(text)
        return _argument_count(template)


@lru_cache(maxsize=64)
def _argument_count(template: bytes) -> int:
    found = _SPECIFICATION.findall(template)
    return sum(1 + (width == b"*") + (precision == b"*") for _, width, precision, _, kind in found if kind != b"%")


def format_device(arena: Arena, template: bytes, arguments: int) -> str:
    """Format as device ``printf`` does: arguments lie one after another in memory, each naturally aligned."""
    position = arguments

    def take(size: int) -> bytes:
        nonlocal position
        position = -(-position // size) * size
        start, position = position, position + size
        return bytes(arena.data(start, size)) if arena.contains(start, size) else bytes(size)

    def integer(size: int, signed: bool) -> int:
        return int.from_bytes(take(size), "little", signed=signed)

    def floating() -> float:
        return float(np.frombuffer(take(8), dtype=np.float64)[0])

    def one(match: re.Match[bytes]) -> bytes:
        flags, width, precision, length, kind = match.groups()
        if kind == b"%":
            return b"%"
        if width == b"*":
            width = str(integer(4, True)).encode()
        if precision == b"*":
            precision = str(integer(4, True)).encode()
        start = (
            "%" + flags.decode() + (width or b"").decode() + ("." + precision.decode() if precision is not None else "")
        )
        wide = 8 if length in (b"l", b"ll", b"z", b"t", b"j") else 4
        letter = kind.decode()
        if letter in "di":
            return (start + "d").encode() % integer(wide, True)
        if letter in "ouxX":
            return (start + ("d" if letter == "u" else letter)).encode() % integer(wide, False)
        if letter in "eEfFgG":
            return (start + letter).encode() % floating()
        if letter in "aA":
            return floating().hex().encode()
        if letter == "c":
            return (start + "c").encode() % (integer(4, False) & 0xFF)
        if letter == "s":
            return (start + "s").encode() % arena.string(integer(8, False))
        return hex(integer(8, False)).encode()

    return _SPECIFICATION.sub(one, template).decode(errors="replace")
