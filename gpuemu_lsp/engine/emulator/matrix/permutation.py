"""How ``ldmatrix``, ``stmatrix`` and ``movmatrix`` move 16-bit elements between the registers of a warp's lanes.

An 8 x 8 matrix has its row i either in the four registers of one lane (as a load of its row gives it), or spread as a
fragment: lane T has elements 2 (T % 4) and 2 (T % 4) + 1 of row T / 4 (PTX ISA section 9.7.14.5.15, figure 104).
"""

from __future__ import annotations

from dataclasses import dataclass

ROWS = "%rows"
"""Not PTX: from lanes that hold whole rows to fragments (the second half of ``ldmatrix``)."""
FRAGMENTS = "%fragments"
"""Not PTX: from fragments to lanes that hold whole rows (the first half of ``stmatrix``)."""
TRANSPOSE = "%transpose"
"""Not PTX: transposes a fragment (``movmatrix``)."""

PERMUTATIONS = frozenset({ROWS, FRAGMENTS, TRANSPOSE})


@dataclass(frozen=True, slots=True)
class HalfRegister:
    """One 16-bit half of a source register in some lane."""

    register: int
    lane: int
    upper: int


def halves(opcode: str, transposed: bool, result: int, lane: int) -> tuple[HalfRegister, HalfRegister]:
    """Return where the lower and the upper half of a result register come from, in one lane."""
    if opcode == ROWS:
        pick = _of_row if not transposed else _of_row_transposed
        return pick(result, lane, 0), pick(result, lane, 1)
    if opcode == FRAGMENTS:
        # Lane 8 m + i gets row i of matrix m, elements 2 result and 2 result + 1.
        matrix, row = divmod(lane, 8)
        pick_fragment = _of_fragment if not transposed else _of_fragment_transposed
        return pick_fragment(matrix, row, 2 * result), pick_fragment(matrix, row, 2 * result + 1)
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
