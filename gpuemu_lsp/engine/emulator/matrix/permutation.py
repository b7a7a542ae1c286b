"""Permutations of 16-bit halves between lanes: ``ldmatrix``, ``stmatrix`` and ``movmatrix`` without their accesses.

An 8 x 8 matrix of 16-bit elements has two layouts. As *rows*, one lane holds row i in four registers, as it is loaded.
As a *fragment*, lane T holds elements 2 (T % 4) and 2 (T % 4) + 1 of row T / 4 in one register (PTX ISA section
9.7.14.5.15, figure 104).
"""

from __future__ import annotations

from dataclasses import dataclass

ROWS = "%rows"
"""Pseudo-instruction: rows to fragments, the second half of ``ldmatrix``."""
FRAGMENTS = "%fragments"
"""Pseudo-instruction: fragments to rows, the first half of ``stmatrix``."""
TRANSPOSE = "%transpose"
"""Pseudo-instruction: transposes a fragment (``movmatrix``)."""

PERMUTATIONS = frozenset({ROWS, FRAGMENTS, TRANSPOSE})


@dataclass(frozen=True, slots=True)
class HalfRegister:
    """A 16-bit half of a register of some lane: register number, lane, and 1 for the upper half."""

    register: int
    lane: int
    upper: int


def halves(opcode: str, transposed: bool, result: int, lane: int) -> tuple[HalfRegister, HalfRegister]:
    """Return the sources of the lower and the upper half of a result register, in one lane."""
    if opcode == ROWS:
        source = _of_row if not transposed else _of_row_transposed
        return source(result, lane, 0), source(result, lane, 1)
    if opcode == FRAGMENTS:
        # Lane 8 m + i receives elements 2 result and 2 result + 1 of row i of matrix m.
        matrix, row = divmod(lane, 8)
        source_fragment = _of_fragment if not transposed else _of_fragment_transposed
        return source_fragment(matrix, row, 2 * result), source_fragment(matrix, row, 2 * result + 1)
    row, column = lane // 4, 2 * (lane % 4)
    return _of_fragment_transposed(result, row, column), _of_fragment_transposed(result, row, column + 1)


def _of_row(matrix: int, lane: int, upper: int) -> HalfRegister:
    return HalfRegister(lane % 4, 8 * matrix + lane // 4, upper)


def _of_row_transposed(matrix: int, lane: int, upper: int) -> HalfRegister:
    row, column = 2 * (lane % 4) + upper, lane // 4
    return HalfRegister(column // 2, 8 * matrix + row, column % 2)


def _of_fragment(matrix: int, row: int, column: int) -> HalfRegister:
    return HalfRegister(matrix, 4 * row + column // 2, column % 2)


def _of_fragment_transposed(matrix: int, row: int, column: int) -> HalfRegister:
    return _of_fragment(matrix, column, row)
