"""Executes ``tcgen05.mma`` and ``tcgen05.cp`` (PTX ISA sections 9.7.16.9 and 9.7.16.10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from gpuemu_lsp.engine.emulator.launch.async_order.products import ProductSteps
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.tensor_memory.calls import TensorCall
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import CellRange, TensorAccess, TensorCells
from gpuemu_lsp.engine.emulator.launch.tensor_memory.commits import Commits
from gpuemu_lsp.engine.emulator.launch.tensor_memory.descriptors import ProductShape, decoded_shape
from gpuemu_lsp.engine.emulator.launch.tensor_memory.layouts import (
    Part,
    accumulator_parts,
    scale_range,
    scale_values,
)
from gpuemu_lsp.engine.emulator.launch.tensor_memory.numbers import (
    Values,
    element_bits,
    element_values,
    padded,
    result_cells,
    result_values,
)
from gpuemu_lsp.engine.emulator.launch.tensor_memory.operands import ROW_BYTES, SharedOperands
from gpuemu_lsp.engine.emulator.launch.tensor_memory.order import CellChecks
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED

_QUARTER: Final = 32
_COLUMN_BYTES: Final = 4


class Member(NamedTuple):
    """A block that takes part in an operation: the caller as if it were the block's, and its tensor memory."""

    caller: EventCaller
    memory: TensorCells


class TensorProducts:
    """Executes the products of a launch, and copies to tensor memory.

    ``members`` returns the blocks that take part in an operation, by rank.
    """

    def __init__(
        self,
        shared: SharedTraffic,
        commits: Commits,
        checks: CellChecks,
        members: Callable[[TensorCall], list[Member]],
        *,
        checked: bool,
    ) -> None:
        self._shared, self._commits, self._checks, self._members = shared, commits, checks, members
        self._operands, self._checked = SharedOperands(shared, checked=checked), checked
        self._steps: dict[tuple[int, int], ProductSteps | None] = {}
        self.check_overwritten = self._operands.check_overwritten

    # ---- products ----------------------------------------------------------------------------------------------------

    def multiply(self, call: TensorCall) -> None:
        """Execute a product for each lane of a warp that issues one."""
        for index in range(len(call.caller.lanes)):
            self._multiply(call.of_lane(index))

    def _multiply(self, call: TensorCall) -> None:
        shape = self._shape(call)
        if shape is None:
            return
        form, members = call.form, self._members(call)
        accumulates = bool(call.value(6 if form.scales else 4) & 1)
        parts = accumulator_parts(shape, form, call.value(0) & 0xFFFFFFFF)
        inside = [self._checks.inside(member.caller, member.memory, part.cells) for member in members for part in parts]
        if not all(inside):
            return
        access = self._checks.access(call)
        for member in members:
            self._record(member, [part.cells for part in parts], access, accumulates=accumulates)
        self._commits.issue(access)
        right = self._right(call, shape, members, access)
        if self._checked and form.group == 1 and not form.in_tensor_memory:
            thread = call.caller.block, call.caller.thread()
            descriptors = call.value(1), call.value(2)
            self._steps[thread] = self._operands.steps(call.caller, descriptors, shape, self._steps.get(thread))
        for member in members:
            self._multiply_block(call, shape, member, parts, right, access, accumulates=accumulates)

    def _shape(self, call: TensorCall) -> ProductShape | None:
        """Return the shape of a product; None if it cannot be run, which is reported."""
        form = call.form
        shape = decoded_shape(call.value(3) & 0xFFFFFFFF, form)
        problem = shape if isinstance(shape, str) else _problem(call, shape)
        if isinstance(shape, str) or problem:
            self._shared.add(call.caller, UNSUPPORTED, f"{problem} cannot be run")
            return None
        return shape

    def _record(self, member: Member, ranges: list[CellRange], access: TensorAccess, *, accumulates: bool) -> None:
        """Check the accumulator of a block, and note the access."""
        number = member.memory.note(access)
        for cells in ranges:
            if self._checked and accumulates:
                self._checks.read(member.caller, member.memory, cells, access, "this product adds to")
            if self._checked:
                self._checks.write(member.caller, member.memory, cells, access, "this product writes to")
            member.memory.writers[cells.stripes] = number

    def _right(
        self, call: TensorCall, shape: ProductShape, members: list[Member], access: TensorAccess
    ) -> Values | None:
        """Return B with its scale factors, of the shape (columns, k): each block of a pair has half of the columns."""
        halves = [
            self._operands.values(
                member.caller,
                access,
                "B",
                call.value(2),
                shape.columns // len(members),
                shape.formats[1],
                mn_major=shape.mn_major[1],
            )
            for member in members
        ]
        present = [half for half in halves if half is not None]
        return np.concatenate(present) if len(present) == len(halves) else None

    def _multiply_block(
        self,
        call: TensorCall,
        shape: ProductShape,
        member: Member,
        parts: list[Part],
        right: Values | None,
        access: TensorAccess,
        *,
        accumulates: bool,
    ) -> None:
        rows = shape.rows // call.form.group
        left = None if call.form.in_tensor_memory else self._left(call, shape, member, rows, access)
        scales = self._scales(call, shape, member, rows, access) if call.form.scales else None
        sign = -1.0 if shape.negated[0] != shape.negated[1] else 1.0
        for part in parts:
            if call.form.in_tensor_memory:
                left = self._left_of_part(call, shape, member, part, access)
            if left is None or right is None:
                return
            with np.errstate(all="ignore"):
                a, b = left[part.rows], right[part.columns] * sign
                if scales is not None:
                    a, b = a * scales[0][part.rows], b * scales[1][part.columns]
                self._add(call, shape, member.memory.cells, part, a @ b.T, accumulates=accumulates)

    def _left(
        self, call: TensorCall, shape: ProductShape, member: Member, rows: int, access: TensorAccess
    ) -> Values | None:
        return self._operands.values(
            member.caller, access, "A", call.value(1), rows, shape.formats[0], mn_major=shape.mn_major[0]
        )

    def _left_of_part(
        self, call: TensorCall, shape: ProductShape, member: Member, part: Part, access: TensorAccess
    ) -> Values | None:
        """Return A from the lanes of a part of the accumulator, with the rows of other parts left out (zeros)."""
        address = call.value(1) & 0xFFFFFFFF
        first = part.cells.lane - (call.value(0) >> 16 & 0xFFFF) + (address >> 16)
        cells = CellRange(first, part.cells.lanes, address & 0xFFFF, ROW_BYTES // _COLUMN_BYTES)
        if not self._checks.inside(member.caller, member.memory, cells):
            return None
        if self._checked:
            self._checks.read(member.caller, member.memory, cells, access, "this product reads operand A from")
            member.memory.note_read(cells, access)
        pieces = np.ascontiguousarray(member.memory.cells[cells.area]).view(np.uint8)
        values = element_values(pieces, shape.formats[0])
        left = np.zeros((shape.rows // call.form.group, values.shape[1]))
        left[part.rows] = values
        return left

    def _scales(
        self, call: TensorCall, shape: ProductShape, member: Member, rows: int, access: TensorAccess
    ) -> tuple[Values, Values] | None:
        """Return the scale factors of the elements of A and of B."""
        depth = ROW_BYTES * 8 // element_bits(shape.formats[0])
        factors = []
        for count, row, number in ((rows, 4, shape.scale_ids[0]), (shape.columns, 5, shape.scale_ids[1])):
            cells = scale_range(count, call.value(row) & 0xFFFFFFFF)
            if not self._checks.inside(member.caller, member.memory, cells):
                return None
            if self._checked:
                self._checks.read(member.caller, member.memory, cells, access, "this product reads scale factors from")
                member.memory.note_read(cells, access)
            words = member.memory.cells[cells.area]
            factors.append(scale_values(words, count, number, call.form.scales, shape.scale_format, depth))
        return factors[0], factors[1]

    def _add(
        self, call: TensorCall, shape: ProductShape, memory: np.ndarray, part: Part, sums: Values, *, accumulates: bool
    ) -> None:
        """Write the sums of a part; ``memory`` are all cells, of the shape (lanes, columns)."""
        cells = memory[part.cells.area]
        if accumulates:
            addend = result_values(cells, shape.result)
            if not call.form.scales and not call.form.weights and call.has_value(5):
                addend = np.ldexp(addend, -int(call.value(5)))
            sums = sums + addend
        result = result_cells(sums, shape.result, saturating=shape.saturating)
        if call.has_registers:
            words = call.registers(4)[:, call.caller.lanes[0]].copy()
            kept = np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)[: len(cells)]
            result[kept] = cells[kept]
        cells[:] = result

    # ---- copies ------------------------------------------------------------------------------------------------------

    def copy(self, call: TensorCall) -> None:
        """Execute a copy for each lane of a warp that issues one."""
        for index in range(len(call.caller.lanes)):
            self._copy(call.of_lane(index))

    def _copy(self, call: TensorCall) -> None:
        form, address = call.form, call.value(0) & 0xFFFFFFFF
        rows, width = (int(number) for number in form.shape[:-1].split("x"))
        access = self._checks.access(call)
        cells = CellRange(0, 128, address & 0xFFFF, width // 32)
        for member in self._members(call):
            if not self._checks.inside(member.caller, member.memory, cells):
                continue
            if self._checked:
                self._checks.write(member.caller, member.memory, cells, access, "this copies to")
            member.memory.writers[cells.stripes] = member.memory.note(access)
            source = self._operands.rows(member.caller, access, call.value(1), rows, width // 8)
            if source is None:
                continue
            words = source.view(np.uint32)
            if form.warps == "warpx4":
                words = np.tile(words, (4, 1))
            elif form.warps == "warpx2::02_13":
                words = np.tile(words, (2, 1))
            elif form.warps == "warpx2::01_23":
                words = np.repeat(words.reshape(2, _QUARTER, -1), 2, axis=0).reshape(128, -1)
            member.memory.cells[cells.area] = words
        self._commits.issue(access)


def _problem(call: TensorCall, shape: ProductShape) -> str:
    """Return what of a product cannot be run, empty if it can be."""
    form = call.form
    if form.in_tensor_memory and padded(shape.formats[0]):
        return "operand A of 4 or 6 bits in tensor memory"
    if form.weights and call.has_value(5) and call.value(5):
        return "a mask of columns"
    disabled = call.has_registers and bool(call.registers(4 * form.group).any())
    if disabled and (shape.rows < 128 or form.group == 2):
        return "`disable-output-lane` of fewer than 128 rows or of a pair of blocks"
    return ""
