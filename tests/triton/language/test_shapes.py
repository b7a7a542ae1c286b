"""Shapes: reshapes, transposes, joins, splits and block layouts that a conversion moves through shared memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import triton
import triton.language as tl
from language_support import run, values


@triton.jit
def rearrange(x, y, out, OP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    a = tl.load(x + rows * COLUMNS + columns)
    b = tl.load(y + rows * COLUMNS + columns)
    if OP == "trans":
        tl.store(out + tl.arange(0, COLUMNS)[:, None] * ROWS + tl.arange(0, ROWS)[None, :], tl.trans(a))
    elif OP == "ravel":
        tl.store(out + tl.arange(0, ROWS * COLUMNS), tl.ravel(a))
    elif OP == "reshape":
        half: tl.constexpr = COLUMNS // 2
        tall = tl.reshape(a, (2 * ROWS, half))
        tl.store(out + tl.arange(0, 2 * ROWS)[:, None] * half + tl.arange(0, half)[None, :], tall)
    elif OP == "join":
        joined = tl.join(a, b)
        places = (rows * COLUMNS + columns)[:, :, None] * 2 + tl.arange(0, 2)[None, None, :]
        tl.store(out + places, joined)
    elif OP == "interleave":
        wide: tl.constexpr = 2 * COLUMNS
        tl.store(out + rows * wide + tl.arange(0, wide)[None, :], tl.interleave(a, b))
    elif OP == "split":
        half: tl.constexpr = COLUMNS // 2
        even, odd = tl.split(tl.reshape(a, (ROWS, half, 2)))
        places = rows * half + tl.arange(0, half)[None, :]
        tl.store(out + places, even)
        tl.store(out + ROWS * half + places, odd)
    elif OP == "cat":
        both = tl.cat(tl.ravel(a), tl.ravel(b), can_reorder=True)
        tl.store(out + tl.arange(0, 2 * ROWS * COLUMNS), both)
    elif OP == "expand":
        deep = tl.expand_dims(a, 1)
        tl.store(out + (rows * COLUMNS + columns)[:, None, :], deep + tl.expand_dims(b, 1))
    elif OP == "broadcast":
        first = tl.sum(tl.where(columns == 0, a, 0), axis=1)
        tl.store(out + rows * COLUMNS + columns, tl.broadcast_to(first[:, None], (ROWS, COLUMNS)))


@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("shape", [(16, 16), (64, 8), (2, 128)])
@pytest.mark.parametrize(
    "op", ["trans", "ravel", "reshape", "join", "interleave", "split", "cat", "expand", "broadcast"]
)
def test_rearrangements(op, shape, num_warps):
    a, b = values("int32", shape, 1), values("int32", shape, 2)
    with np.errstate(over="ignore"):
        expected = {
            "trans": a.T,
            "ravel": a,
            "reshape": a,
            "join": np.stack([a, b], axis=-1),
            "interleave": np.stack([a, b], axis=-1),
            "split": np.concatenate([a[:, ::2].ravel(), a[:, 1::2].ravel()]),
            "cat": np.concatenate([a.ravel(), b.ravel()]),
            "expand": a + b,
            "broadcast": np.broadcast_to(a[:, :1], shape),
        }[op].ravel()
    out = np.zeros(expected.size, np.int32)
    run(rearrange, 1, a, b, out, OP=op, ROWS=shape[0], COLUMNS=shape[1], num_warps=num_warps)
    # Parts of a concatenation may be reordered.
    assert np.array_equal(np.sort(out), np.sort(expected)) if op == "cat" else np.array_equal(out, expected)


@triton.jit
def permute(
    x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, R: tl.constexpr
):
    i, j, k = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    block = tl.permute(tl.load(x + (i * B + j) * C + k), (P, Q, R))
    tl.store(out + tl.arange(0, A * B * C), tl.ravel(block))


@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float64"])
@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_permutations(axes, dtype):
    x = values(dtype, (4, 8, 16), 3)
    out = np.zeros(x.size, x.dtype)
    run(permute, 1, x, out, *x.shape, *axes)
    assert np.array_equal(out, x.transpose(axes).ravel())
