"""An operation of generated code on tensor memory, with its operands."""

from __future__ import annotations

import ctypes
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.instructions.sm100.tensor_memory import VALUE_BYTES, VALUE_ROWS
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import EventCaller
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import TensorForm

Registers: TypeAlias = npt.NDArray[np.uint32]
"""Registers of a warp, of the shape (registers, lanes)."""


class TensorCall:
    """An operation by a warp; ``values`` are its operands of up to 64 bits, of the shape (operands, lanes).

    ``counts`` are the numbers of these operands and of the registers of a vector.
    """

    def __init__(self, caller: EventCaller, form: TensorForm, counts: tuple[int, int]) -> None:
        self.caller, self.form, self._counts = caller, form, counts
        start = ctypes.c_int64.from_address(caller.context + Warp.ADDRESSES).value
        values = (ctypes.c_uint64 * (VALUE_ROWS * WARP_SIZE)).from_address(start)
        self.values: npt.NDArray[np.uint64] = np.ctypeslib.as_array(values).reshape(VALUE_ROWS, WARP_SIZE)
        self._registers = start + VALUE_ROWS * VALUE_BYTES

    def registers(self, count: int) -> Registers:
        """Return a view of the registers of a vector."""
        cells = (ctypes.c_uint32 * (count * WARP_SIZE)).from_address(self._registers)
        registers: Registers = np.ctypeslib.as_array(cells).reshape(count, WARP_SIZE)
        return registers

    @property
    def has_registers(self) -> bool:
        """Whether a vector of registers is an operand."""
        return self._counts[1] > 0

    def has_value(self, row: int) -> bool:
        """Return whether there is an operand of a number."""
        return row < self._counts[0]

    def value(self, row: int) -> int:
        """Return an operand in the first lane that executes."""
        return int(self.values[row, self.caller.lanes[0]])

    def of_lane(self, index: int) -> TensorCall:
        """Return the operation of one of the lanes that execute."""
        return TensorCall(self.caller._replace(lanes=self.caller.lanes[index : index + 1]), self.form, self._counts)
