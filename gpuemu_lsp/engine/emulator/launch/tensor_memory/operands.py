"""Operands of ``tcgen05`` in shared memory: where the bytes of their elements are (PTX ISA section 9.7.16.4.1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.launch.async_order.operand_checks import OperandChecks
from gpuemu_lsp.engine.emulator.launch.async_order.operands import (
    CHUNK,
    Descriptor,
    OperandChunks,
    decoded_tensor,
    operand_bytes,
    operand_chunks,
    row_chunks,
)
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.tensor_memory.numbers import Values, element_bits, element_values
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED

_PIECE = np.complex128
"""16 bytes that NumPy moves at once, whatever they are."""

ROW_BYTES = 32
"""Bytes that the elements of a row have along k."""


class SharedOperands:
    """Reads the operands of a launch that are in shared memory; ``checked`` says whether misuse is looked for."""

    def __init__(self, shared: SharedTraffic, *, checked: bool) -> None:
        self._shared, self._checks, self._checked = shared, OperandChecks(shared), checked

    def values(
        self, caller: EventCaller, name: str, bits: int, rows: int, format_: str, *, mn_major: bool
    ) -> Values | None:
        """Return the values of an operand with shape (rows, k); None if it cannot be read, which is reported."""
        descriptor = self._decoded(caller, name, bits)
        if descriptor is None:
            return None
        width = element_bits(format_)
        chunks = operand_chunks(descriptor, rows, width, mn_major)
        if not self._readable(caller, f"operand {name}", chunks, descriptor.swizzle):
            return None
        pieces = self._pieces(caller, chunks)
        if chunks.along_k:
            return element_values(pieces.reshape(rows, ROW_BYTES), format_)
        # By k and then by rows.
        return element_values(pieces.reshape(-1, rows * width // 8), format_).T

    def rows(self, caller: EventCaller, bits: int, rows: int, width: int) -> npt.NDArray[np.uint8] | None:
        """Return the bytes of the rows of a copy, with shape (rows, width); None if they cannot be read."""
        descriptor = self._decoded(caller, "the source", bits)
        if descriptor is None:
            return None
        chunks = row_chunks(descriptor, rows, width)
        if not self._readable(caller, "the source", chunks, descriptor.swizzle):
            return None
        return self._pieces(caller, chunks).reshape(rows, width)

    def _decoded(self, caller: EventCaller, name: str, bits: int) -> Descriptor | None:
        descriptor = decoded_tensor(bits)
        if descriptor is None:
            text = f"the descriptor {bits:#x} of {name} has a swizzle or a stride mode that cannot be run"
            self._shared.add(caller, UNSUPPORTED, text)
        return descriptor

    def _readable(self, caller: EventCaller, name: str, chunks: OperandChunks, swizzle: int) -> bool:
        """Return whether chunks are in shared memory; what is wrong with them is reported."""
        reach = operand_bytes(chunks)
        if reach.low < 0 or reach.high >= self._size:
            text = f"{name} reaches from byte {reach.low} to byte {reach.high} of shared memory, and the block has "
            self._shared.add(caller, "memory/out-of-bounds", f"{text}{self._shared.size}")
            return False
        if self._checked:
            self._checks.check(caller, name, chunks, swizzle, self._shared.block(caller.block))
        return True

    @property
    def _size(self) -> int:
        return self._shared.size // CHUNK * CHUNK

    def _pieces(self, caller: EventCaller, chunks: OperandChunks) -> npt.NDArray[np.uint8]:
        memory = self._shared.arena.data(caller.window, self._size)
        return memory.view(_PIECE)[chunks.addresses // CHUNK].view(np.uint8)
