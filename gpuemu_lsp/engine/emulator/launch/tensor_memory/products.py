"""Operands and accumulators of ``tcgen05.mma``: where their elements are (PTX ISA section 9.7.16.10)."""

from __future__ import annotations

import numpy as np

from gpuemu_lsp.engine.emulator.launch.async_order.operand_checks import OperandChecks
from gpuemu_lsp.engine.emulator.launch.async_order.operands import (
    CHUNK,
    OperandChunks,
    decoded_tensor,
    operand_bytes,
    operand_chunks,
)
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import CellRange
from gpuemu_lsp.engine.emulator.launch.tensor_memory.descriptors import ProductShape
from gpuemu_lsp.engine.emulator.launch.tensor_memory.numbers import BITS, Values, element_values
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED

_PIECE = np.complex128
"""16 bytes that NumPy moves at once, whatever they are."""

_K_BYTES = 32
"""Bytes that the elements of a row have along k."""


class SharedOperands:
    """Reads the operands of products that are in shared memory."""

    def __init__(self, shared: SharedTraffic) -> None:
        self._shared, self._checks = shared, OperandChecks(shared)

    def values(
        self, caller: EventCaller, name: str, bits: int, rows: int, format_: str, *, mn_major: bool, checked: bool
    ) -> Values | None:
        """Return the values of an operand with shape (rows, k); None if it cannot be read, which is reported."""
        descriptor = decoded_tensor(bits)
        if descriptor is None:
            text = f"the descriptor {bits:#x} of operand {name}: its swizzle or stride mode cannot be run"
            self._shared.add(caller, UNSUPPORTED, text)
            return None
        chunks = operand_chunks(descriptor, rows, BITS[format_], mn_major)
        size = self._shared.size // CHUNK * CHUNK
        reach = operand_bytes(chunks)
        if reach.low < 0 or reach.high >= size:
            text = (
                f"operand {name} of this product reaches from byte {reach.low} to byte {reach.high} of shared memory, "
            )
            text += f"and the block has {self._shared.size}"
            self._shared.add(caller, "memory/out-of-bounds", text)
            return None
        if checked:
            self._checks.check(caller, name, chunks, descriptor.swizzle, self._shared.block(caller.block))
        return _matrix(self._shared.arena.data(caller.window, size), chunks, rows, format_)


def _matrix(memory: np.ndarray, chunks: OperandChunks, rows: int, format_: str) -> Values:
    pieces = memory.view(_PIECE)[chunks.addresses // CHUNK].view(np.uint8)
    if chunks.along_k:
        return element_values(pieces.reshape(rows, _K_BYTES), format_)
    # By k and then by rows.
    return element_values(pieces.reshape(-1, rows * BITS[format_] // 8), format_).T


def accumulator_ranges(shape: ProductShape, address: int) -> list[CellRange]:
    """Return the cells of an accumulator by parts of its rows, in their order.

    128 rows take a lane each. 64 rows take the lower or the upper half of each quarter of the lanes, as the address
    says (layouts D and F of section 9.7.16.10.5).
    """
    lane, column = address >> 16, address & 0xFFFF
    if shape.rows == 128:
        return [CellRange(lane, 128, column, shape.columns)]
    return [CellRange(lane + 32 * quarter, 16, column, shape.columns) for quarter in range(4)]
