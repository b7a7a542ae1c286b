"""Reductions, scans, sorting, histograms and gathers, along every axis."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl
from language_support import FLOATS, INTEGERS, NUMPY, assert_close, run, values


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def reduce(x, out, OP: tl.constexpr, AXIS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    a = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    if OP == "sum":
        result = tl.sum(a, axis=AXIS)
    elif OP == "max":
        result = tl.max(a, axis=AXIS)
    elif OP == "min":
        result = tl.min(a, axis=AXIS)
    elif OP == "argmax":
        result = tl.argmax(a, axis=AXIS)
    elif OP == "argmin":
        result = tl.argmin(a, axis=AXIS)
    elif OP == "xor":
        result = tl.xor_sum(a, axis=AXIS)
    elif OP == "product":
        result = tl.reduce(a, AXIS, product)
    if AXIS is None:
        tl.store(out, result)
    elif AXIS == 0:
        tl.store(out + columns, result)
    else:
        tl.store(out + rows, result)


@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("op", ["sum", "max", "min", "xor", "argmax", "argmin", "product"])
def test_reductions_of_integers(op, axis, num_warps):
    if axis is None and op in ("argmax", "argmin"):
        pytest.skip("an index along no axis")
    x = values("int32", (32, 64), 1, -9, 9)
    x[3, 5], x[20, 40] = 11, -11  # of equal values the first counts
    x[:, 8] = 12
    out = np.zeros(1 if axis is None else x.shape[1 - axis], np.int32)
    run(reduce, 1, x, out, OP=op, AXIS=axis, ROWS=32, COLUMNS=64, num_warps=num_warps)
    formula = {"xor": np.bitwise_xor.reduce, "product": np.multiply.reduce}.get(op) or getattr(np, op)
    with np.errstate(over="ignore"):
        expected = formula(x.astype(np.int32), axis=axis)
    assert out.tolist() == np.atleast_1d(expected).astype(np.int32).tolist()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["sum", "max", "min", "xor", "argmax"])
def test_reductions_of_integers_of_every_size(op, dtype):
    x = values(dtype, (16, 32), 2)
    out = np.zeros(16, np.int64 if op == "argmax" else NUMPY[dtype])
    run(reduce, 1, x, out, OP=op, AXIS=1, ROWS=16, COLUMNS=32)
    if op == "sum":
        expected = x.astype(object).sum(axis=1)
        bits = out.itemsize * 8
        assert [int(value) % 2**bits for value in out] == [value % 2**bits for value in expected]
    else:
        formula = {"xor": np.bitwise_xor.reduce, "max": np.max, "min": np.min, "argmax": np.argmax}[op]
        assert out.tolist() == formula(x, axis=1).tolist()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["sum", "max", "min", "argmin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_floats(op, axis, dtype):
    x = values(dtype, (64, 32), 3)
    out = np.zeros(x.shape[1 - axis], np.int32 if op == "argmin" else x.dtype)
    run(reduce, 1, x, out, OP=op, AXIS=axis, ROWS=64, COLUMNS=32)
    exact = getattr(np, op)(x.astype(np.float64), axis=axis)
    if op == "sum":
        # Up to 6 levels of additions; those of short floats are in fp32.
        unit = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}[dtype]
        bound = np.abs(x.astype(np.float64)).sum(axis=axis) * unit * 7
        assert (np.abs(out.astype(np.float64) - exact) <= bound).all()
    else:
        assert np.array_equal(out.astype(np.float64), exact)


@triton.jit
def weighted_mean(mean_a, weight_a, mean_b, weight_b):
    weight = weight_a + weight_b
    return (mean_a * weight_a + mean_b * weight_b) / weight, weight


@triton.jit
def mean_of_tuples(x, out, BLOCK: tl.constexpr):
    a = tl.load(x + tl.arange(0, BLOCK))
    mean, weight = tl.reduce((a, tl.full((BLOCK,), 1.0, tl.float32)), 0, weighted_mean)
    tl.store(out, mean)
    tl.store(out + 1, weight)


@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
@pytest.mark.parametrize("block", [32, 128, 1024])
def test_reductions_of_tuples(block, num_warps):
    x, out = values("float32", block, 4), np.zeros(2, np.float32)
    run(mean_of_tuples, 1, x, out, BLOCK=block, num_warps=num_warps)
    assert abs(out[0] - x.astype(np.float64).mean()) < 1e-6 and out[1] == block


@triton.jit
def last_nonzero(a, b):
    return tl.where(b == 0, a, b)


@triton.jit
def scan(
    x, out, OP: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    places = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    a = tl.load(x + places)
    if OP == "cumsum":
        result = tl.cumsum(a, axis=AXIS, reverse=REVERSE)
    elif OP == "cumprod":
        result = tl.cumprod(a, axis=AXIS, reverse=REVERSE)
    else:
        result = tl.associative_scan(a, AXIS, last_nonzero, reverse=REVERSE)
    tl.store(out + places, result)


def forward_fill(x):
    result = x.copy()
    for index in range(1, len(x)):
        result[index] = np.where(x[index] == 0, result[index - 1], x[index])
    return result


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["cumsum", "cumprod", "last"])
def test_scans(op, axis, reverse, num_warps):
    x = values("int32", (16, 64), 5, -1 if op == "last" else -40, 1 if op == "last" else 40)
    out = np.zeros_like(x)
    run(scan, 1, x, out, OP=op, AXIS=axis, REVERSE=reverse, ROWS=16, COLUMNS=64, num_warps=num_warps)
    turned = np.flip(x, axis) if reverse else x
    with np.errstate(over="ignore"):
        if op == "last":
            expected = np.moveaxis(forward_fill(np.moveaxis(turned, axis, 0)), 0, axis)
        else:
            expected = getattr(np, op)(turned, axis=axis, dtype=np.int32)
    assert np.array_equal(out, np.flip(expected, axis) if reverse else expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_running_sums_of_every_type(dtype):
    x = values(dtype, (8, 64), 6, -100, 100)
    out = np.zeros_like(x)
    run(scan, 1, x, out, OP="cumsum", AXIS=1, REVERSE=False, ROWS=8, COLUMNS=64)
    exact = np.cumsum(x.astype(np.float64), axis=1)
    unit = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52, "int64": 0}[dtype]
    assert (np.abs(out.astype(np.float64) - exact) <= unit * 8 * np.cumsum(np.abs(x.astype(np.float64)), axis=1)).all()


@triton.jit
def order(x, out, OP: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    a = tl.load(x + rows * COLUMNS + columns)
    if OP == "sort":
        tl.store(out + rows * COLUMNS + columns, tl.sort(a))
    elif OP == "sort descending":
        tl.store(out + rows * COLUMNS + columns, tl.sort(a, descending=True))
    elif OP == "flip":
        tl.store(out + rows * COLUMNS + columns, tl.flip(a, 1))
    elif OP == "flip rows":
        tl.store(out + rows * COLUMNS + columns, tl.flip(a, 0))
    else:
        tl.store(out + rows * K + tl.arange(0, K)[None, :], tl.topk(a, K))


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "int64", "float16", "float32", "bfloat16"])
@pytest.mark.parametrize("op", ["sort", "sort descending", "flip", "flip rows", "topk"])
def test_orders(op, dtype, num_warps):
    x = values(dtype, (8, 32), 7)
    out = np.zeros((8, 4 if op == "topk" else 32), x.dtype)
    run(order, 1, x, out, OP=op, K=4, ROWS=8, COLUMNS=32, num_warps=num_warps)
    expected = {
        "sort": lambda: np.sort(x, axis=1),
        "sort descending": lambda: np.sort(x, axis=1)[:, ::-1],
        "flip": lambda: x[:, ::-1],
        "flip rows": lambda: x[::-1],
        "topk": lambda: np.sort(x, axis=1)[:, :-5:-1],
    }[op]()
    assert np.array_equal(out, expected)


@triton.jit
def count(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr, MASKED: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    if MASKED:
        a = tl.load(x + offsets, mask=offsets < n, other=0)
        bins = tl.histogram(a, BINS, mask=offsets < n)
    else:
        bins = tl.histogram(tl.load(x + offsets), BINS)
    tl.store(out + tl.arange(0, BINS), bins)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize(("block", "bins"), [(32, 8), (256, 16), (1024, 128), (128, 512)])
def test_histograms(block, bins, num_warps, masked):
    n = block - 7 if masked else block
    x, out = values("int32", n, 8, 0, bins - 1), np.zeros(bins, np.int32)
    run(count, 1, x, out, n, BLOCK=block, BINS=bins, MASKED=masked, num_warps=num_warps)
    assert out.tolist() == np.bincount(x, minlength=bins).tolist()


@triton.jit
def gather(
    x, index, out, AXIS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, N: tl.constexpr, M: tl.constexpr
):
    a = tl.load(x + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    places = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(out + places, tl.gather(a, tl.load(index + places), AXIS))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8"])
@pytest.mark.parametrize(("axis", "shape"), [(0, (8, 32)), (0, (64, 32)), (1, (16, 8)), (1, (16, 128))])
def test_gathers(axis, shape, dtype):
    x = values(dtype, (16, 32), 9)
    index = np.random.default_rng(1).integers(0, x.shape[axis], shape).astype(np.int32)
    out = np.zeros(shape, x.dtype)
    run(gather, 1, x, index, out, AXIS=axis, ROWS=16, COLUMNS=32, N=shape[0], M=shape[1])
    assert np.array_equal(out, np.take_along_axis(x, index, axis))


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row, offsets = tl.program_id(0), tl.arange(0, BLOCK)
    inside = offsets < columns
    a = tl.load(x + row * columns + offsets, mask=inside, other=-float("inf"))
    weights = tl.exp(a - tl.max(a, axis=0))
    tl.store(out + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=inside)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("columns", [1, 33, 100, 777])
def test_rows_of_any_length(columns, num_warps, arch):
    x = values("float32", (3, columns), 10)
    out = np.zeros_like(x)
    run(softmax, 3, x, out, columns, BLOCK=triton.next_power_of_2(columns), num_warps=num_warps, arch=arch)
    weights = np.exp(x.astype(np.float64))
    assert_close(out, weights / weights.sum(axis=1, keepdims=True), 16)
