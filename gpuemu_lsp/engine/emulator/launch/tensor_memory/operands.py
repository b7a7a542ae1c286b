"""Operands of ``tcgen05`` in shared memory: where the bytes of their elements are (PTX ISA section 9.7.16.4.1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.launch.async_order.operand_checks import OperandChecks
from gpuemu_lsp.engine.emulator.launch.async_order.operands import (
    CHUNK,
    Descriptor,
    OperandChunks,
    decoded_tensor,
    operand_bytes,
    operand_chunks,
    operand_runs,
    row_chunks,
)
from gpuemu_lsp.engine.emulator.launch.async_order.products import ProductSteps, element_steps, step_fault
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import (
    LAYOUT,
    ORDER,
    EventCaller,
    OperandRead,
    SharedTraffic,
)
from gpuemu_lsp.engine.emulator.launch.state import Incident
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import TensorAccess
from gpuemu_lsp.engine.emulator.launch.tensor_memory.descriptors import ProductShape
from gpuemu_lsp.engine.emulator.launch.tensor_memory.numbers import (
    Values,
    element_bits,
    element_values,
    padded,
    used_bytes,
)
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED
from gpuemu_lsp.engine.emulator.launch.tma.races import AsyncKind

_PIECE = np.complex128
"""16 bytes that NumPy moves at once, whatever they are."""

ROW_BYTES = 32
"""Bytes that the elements of a row have along k."""


class SharedOperands:
    """Reads the operands of a launch that are in shared memory; ``checked`` says whether misuse is looked for."""

    def __init__(self, shared: SharedTraffic, *, checked: bool) -> None:
        self._shared, self._checks, self._checked = shared, OperandChecks(shared), checked

    def values(
        self,
        caller: EventCaller,
        access: TensorAccess,
        name: str,
        bits: int,
        rows: int,
        format_: str,
        *,
        mn_major: bool,
    ) -> Values | None:
        """Return the values of an operand with shape (rows, k); None if it cannot be read, which is reported."""
        descriptor = self._decoded(caller, name, bits)
        if descriptor is None:
            return None
        width = element_bits(format_)
        chunks = operand_chunks(descriptor, rows, width, mn_major)
        used = used_bytes(format_)
        if not self._readable(caller, access, f"operand {name}", chunks, descriptor.swizzle, used):
            return None
        pieces = self._pieces(caller, chunks)
        if chunks.along_k:
            return element_values(pieces.reshape(rows, ROW_BYTES), format_)
        # By k and then by rows.
        return element_values(pieces.reshape(-1, rows * width // 8), format_).T

    def rows(
        self, caller: EventCaller, access: TensorAccess, bits: int, rows: int, width: int
    ) -> npt.NDArray[np.uint8] | None:
        """Return the bytes of the rows of a copy, with shape (rows, width); None if they cannot be read."""
        descriptor = self._decoded(caller, "the source", bits)
        if descriptor is None:
            return None
        chunks = row_chunks(descriptor, rows, width)
        if not self._readable(caller, access, "the source", chunks, descriptor.swizzle):
            return None
        return self._pieces(caller, chunks).reshape(rows, width)

    def _decoded(self, caller: EventCaller, name: str, bits: int) -> Descriptor | None:
        descriptor = decoded_tensor(bits)
        if descriptor is None:
            text = f"the descriptor {bits:#x} of {name} has a swizzle or a stride mode that cannot be run"
            self._shared.add(caller, UNSUPPORTED, text)
        return descriptor

    def _readable(
        self,
        caller: EventCaller,
        access: TensorAccess,
        name: str,
        chunks: OperandChunks,
        swizzle: int,
        used: int = CHUNK,
    ) -> bool:
        """Return whether chunks are in shared memory; what is wrong with them is reported."""
        reach = operand_bytes(chunks)
        if reach.low < 0 or reach.high >= self._size:
            text = f"{name} reaches from byte {reach.low} to byte {reach.high} of shared memory, and the block has "
            self._shared.add(caller, "memory/out-of-bounds", f"{text}{self._shared.size}")
            return False
        if self._checked:
            block = self._shared.block(caller.block)
            _, stored = self._checks.check(caller, name, chunks, swizzle, block, used)
            key = access.party, reach.numbers.tobytes()
            block.reads[key] = OperandRead(access, name, reach.numbers, fenced=not stored)
            self._record(caller, access, chunks)
        return True

    def _record(self, caller: EventCaller, access: TensorAccess, chunks: OperandChunks) -> None:
        """Record a read in the race detector; ``caller`` is the issuer, as if it were of the block with the operand."""
        order = self._shared.races.order(caller.context, caller.lanes[0])
        if order is not None:
            self._shared.races.access(
                AsyncKind.PRODUCT,
                order,
                caller.context,
                caller.site,
                operand_runs(chunks),
                access.epoch,
                start=caller.window,
                block=caller.block,
                lane=caller.warp,
            )

    def steps(
        self, caller: EventCaller, bits: tuple[int, int], shape: ProductShape, before: ProductSteps | None
    ) -> ProductSteps | None:
        """Report descriptors that do not step along k together; return the elements of both operands.

        ``before`` are those of the product before this one. The result is None where they cannot be compared.
        """
        a, b = (decoded_tensor(descriptor) for descriptor in bits)
        widths = {element_bits(format_) for format_ in shape.formats}
        if a is None or b is None or len(widths) > 1 or any(map(padded, shape.formats)):
            return None
        tiles, width = self._shared.block(caller.block).tiles, widths.pop()
        steps = (
            element_steps(operand_chunks(a, shape.rows, width, shape.mn_major[0]), tiles),
            element_steps(operand_chunks(b, shape.columns, width, shape.mn_major[1]), tiles),
        )
        fault = step_fault(steps, before)
        if fault is not None:
            self._shared.add(caller, LAYOUT, fault[0], fault[1].site)
        return steps

    def check_overwritten(self, block: int, window: int) -> None:
        """Report operations in flight whose operands threads have written since; ``window`` is the block's memory."""
        traffic = self._shared.block(block)
        if not traffic.reads or not self._shared.has_stores(window):
            return
        for read in traffic.reads.values():
            places = (read.numbers[:, None] * CHUNK + np.arange(CHUNK)).reshape(-1)
            if read.work.done or not read.fenced or not self._shared.bits(window, places, Shadow.WRITTEN):
                continue
            read.fenced = False
            text = f"threads write to {read.name} while this operation may still read it: nothing has waited for an "
            text += "mbarrier that a `tcgen05.commit` behind it arrives at"
            other = self._shared.writer(window, places)
            incident = Incident(ORDER, text, read.work.site, read.work.thread, block, other, unless_racing=True)
            self._shared.incidents.append(incident)

    @property
    def _size(self) -> int:
        return self._shared.size // CHUNK * CHUNK

    def _pieces(self, caller: EventCaller, chunks: OperandChunks) -> npt.NDArray[np.uint8]:
        memory = self._shared.arena.data(caller.window, self._size)
        return memory.view(_PIECE)[chunks.addresses // CHUNK].view(np.uint8)
