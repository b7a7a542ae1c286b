"""Vectors of structures to structures of vectors and back, by shuffles."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, Value


def columns(e: Emitter, pieces: list[Value]) -> list[Value]:
    """Split rows of interleaved elements (x0 y0 x1 y1 ...) into one vector per element."""
    if len(pieces) == 1:
        return pieces
    half = [_columns_of_two(e, pieces[i], pieces[i + 1], len(pieces)) for i in range(0, len(pieces), 2)]
    if len(pieces) == 2:
        return list(half[0])
    lanes = e.lanes
    low, high = range(lanes // 2), range(lanes // 2, lanes)
    result = []
    for group in range(2):
        for part in (low, high):
            index = [*part, *(lane + lanes for lane in part)]
            result.append(_shuffle(e, half[0][group], half[1][group], index))
    return result


def _columns_of_two(e: Emitter, first: Value, second: Value, count: int) -> tuple[Value, Value]:
    lanes = e.lanes
    if count == 2:
        even = range(0, 2 * lanes, 2)
        return _shuffle(e, first, second, even), _shuffle(e, first, second, [i + 1 for i in even])
    # Two rows hold lanes/2 quadruples: gather elements 0 and 1, and 2 and 3, of each.
    quads = range(0, 2 * lanes, 4)
    index = [[i + k for i in quads] for k in range(4)]
    return _shuffle(e, first, second, index[0] + index[1]), _shuffle(e, first, second, index[2] + index[3])


def rows(e: Emitter, values: list[Value]) -> list[Value]:
    """Interleave one vector per element into rows: the opposite of :func:`columns`."""
    count, lanes = len(values), e.lanes
    if count == 1:
        return values
    if count == 2:
        order = [k for lane in range(lanes) for k in (lane, lane + lanes)]
        return [_shuffle(e, values[0], values[1], order[:lanes]), _shuffle(e, values[0], values[1], order[lanes:])]
    pairs = [rows(e, values[:2]), rows(e, values[2:])]
    result = []
    for row in range(2):
        first, second = pairs[0][row], pairs[1][row]
        order = [k for lane in range(0, lanes, 2) for k in (lane, lane + 1, lane + lanes, lane + lanes + 1)]
        result += [_shuffle(e, first, second, order[:lanes]), _shuffle(e, first, second, order[lanes:])]
    return result


def _shuffle(e: Emitter, first: Value, second: Value, index: Sequence[int]) -> Value:
    return e.builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, len(index)), list(index)))
