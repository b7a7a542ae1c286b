"""Loads, stores and atomic operations: masks, strides, cache modifiers, descriptors, and updates from many programs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from language_support import FLOATS, INTEGERS, NUMPY, run, values
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy(x, out, n, OTHER: tl.constexpr, MODIFIER: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + offsets, mask=offsets < n, other=OTHER, cache_modifier=MODIFIER)
    tl.store(out + offsets, a)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("n", [1, 127, 128, 129, 250])
def test_masked_loads_give_the_other_value(n, dtype):
    x, out = values(dtype, n, 1), np.zeros(256, NUMPY[dtype])
    run(copy, 2, x, out, n, OTHER=7, MODIFIER="", BLOCK=128)
    assert np.array_equal(out[:n], x) and (out[n:] == 7).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("modifier", [".ca", ".cg", ".cv"])
def test_cache_modifiers_of_loads(modifier, arch):
    x, out = values("float32", 200, 2), np.zeros(256, np.float32)
    run(copy, 2, x, out, 200, OTHER=0, MODIFIER=modifier, BLOCK=128, arch=arch)
    assert np.array_equal(out[:200], x)


@triton.jit
def store(x, out, n, MODIFIER: tl.constexpr, POLICY: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + offsets, mask=offsets < n, eviction_policy=POLICY)
    tl.store(out + offsets, a, mask=offsets < n, cache_modifier=MODIFIER, eviction_policy=POLICY)


@pytest.mark.parametrize("policy", ["", "evict_first", "evict_last"])
@pytest.mark.parametrize("modifier", ["", ".wb", ".cg", ".cs", ".wt"])
def test_cache_modifiers_of_stores(modifier, policy):
    x, out = values("int16", 200, 2), np.zeros(200, np.int16)
    run(store, 2, x, out, 200, MODIFIER=modifier, POLICY=policy, BLOCK=128)
    assert np.array_equal(out, x)


@triton.jit
def copy_strided(x, out, rows, columns, row_step, column_step, M: tl.constexpr, N: tl.constexpr):
    m = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    n = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    inside = (m < rows) & (n < columns)
    a = tl.load(x + m * row_step + n * column_step, mask=inside)
    tl.store(out + m * columns + n, a, mask=inside)


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("view", ["whole", "transposed", "middle", "every second", "one row", "one column"])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_strided_views(dtype, view, num_warps):
    whole = values(dtype, (37, 50), 3)
    x = {
        "whole": whole,
        "transposed": whole.T,
        "middle": whole[5:30, 7:40],
        "every second": whole[::2, 1::2],
        "one row": whole[36:],
        "one column": whole[:, 49:],
    }[view]
    out = np.zeros(x.shape, x.dtype)
    steps = [step // x.itemsize for step in x.strides]
    grid = (triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 32))
    run(copy_strided, grid, x, out, *x.shape, *steps, M=16, N=32, num_warps=num_warps)
    assert np.array_equal(out, x)


@triton.jit
def update(x, out, old, n, m, OP: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    a = tl.load(x + offsets, mask=inside)
    target = out + offsets % m
    if OP == "add":
        before = tl.atomic_add(target, a, mask=inside, sem=SEM, scope=SCOPE)
    elif OP == "max":
        before = tl.atomic_max(target, a, mask=inside, sem=SEM, scope=SCOPE)
    elif OP == "min":
        before = tl.atomic_min(target, a, mask=inside, sem=SEM, scope=SCOPE)
    elif OP == "and":
        before = tl.atomic_and(target, a, mask=inside, sem=SEM, scope=SCOPE)
    elif OP == "or":
        before = tl.atomic_or(target, a, mask=inside, sem=SEM, scope=SCOPE)
    elif OP == "xor":
        before = tl.atomic_xor(target, a, mask=inside, sem=SEM, scope=SCOPE)
    else:
        before = tl.atomic_xchg(target, a, mask=inside, sem=SEM, scope=SCOPE)
    tl.store(old + offsets, before, mask=inside)


ATOMICS = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def updated(op, x, m, start):
    out = np.full(m, start, x.dtype)
    with np.errstate(over="ignore"):
        ATOMICS[op].at(out, np.arange(len(x)) % m, x)
    return out


@pytest.mark.parametrize("m", [1, 7, 64])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("op", ATOMICS)
def test_atomic_updates_of_integers(op, dtype, m):
    x = values(dtype, 300, 4)
    out, old = np.full(m, 5, x.dtype), np.zeros(300, x.dtype)
    run(update, 3, x, out, old, 300, m, OP=op, SEM=None, SCOPE=None, BLOCK=128)
    assert np.array_equal(out, updated(op, x, m, 5))


@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release", "acq_rel"])
@pytest.mark.parametrize("scope", ["gpu", "sys"])
@pytest.mark.parametrize("op", ["add", "max"])
def test_orders_and_scopes_of_atomics(op, sem, scope):
    x = values("int32", 300, 5, -50, 50)
    out, old = np.full(16, 5, np.int32), np.zeros(300, np.int32)
    run(update, 3, x, out, old, 300, 16, OP=op, SEM=sem, SCOPE=scope, BLOCK=128)
    assert np.array_equal(out, updated(op, x, 16, 5))
    if op == "add":  # every old value is a partial sum
        for place in range(16):
            sums = set(old[place::16] + x[place::16]) | {5}
            assert out[place] in sums and set(old[place::16]) <= sums


@pytest.mark.parametrize("m", [1, 7, 33])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_atomic_sums_of_floats(dtype, arch, m):
    x = values("int32", 300, 6, 0, 2).astype(NUMPY[dtype])
    out, old = np.zeros(m, x.dtype), np.zeros(300, x.dtype)
    run(update, 3, x, out, old, 300, m, OP="add", SEM=None, SCOPE=None, BLOCK=128, arch=arch)
    exact = np.bincount(np.arange(300) % m, weights=x.astype(float), minlength=m)
    # Small integers, of which only the largest sums of bf16 are rounded.
    limit = 256 if dtype == "bfloat16" else 2048
    assert np.array_equal(out.astype(float)[exact <= limit], exact[exact <= limit])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ["max", "min"])
def test_atomic_extrema_of_floats(op, dtype):
    x = values(dtype, 300, 7)
    out, old = np.zeros(9, x.dtype), np.zeros(300, x.dtype)
    run(update, 3, x, out, old, 300, 9, OP=op, SEM=None, SCOPE=None, BLOCK=128)
    assert np.array_equal(out, updated(op, x, 9, 0))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_exchanges(dtype):
    x = values(dtype, 64, 8)
    out, old = np.zeros(1, x.dtype), np.zeros(64, x.dtype)
    run(update, 4, x, out, old, 64, 1, OP="xchg", SEM=None, SCOPE=None, BLOCK=16, num_warps=1)
    assert sorted([*old.tolist(), *out.tolist()]) == sorted([0, *x.tolist()])


@triton.jit
def locked(lock, total, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + tl.program_id(0))
    # All warps have stored before the lock is released.
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("num_warps", [1, 4])
def test_a_lock(num_warps):
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(locked, 20, lock, total, BLOCK=32, num_warps=num_warps)
    assert total[0] == 190 and lock[0] == 0


@triton.jit
def last_adds(x, partial, counter, out, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    a = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(partial + tl.program_id(0), tl.sum(a))
    if tl.atomic_add(counter, 1, sem="acq_rel") == PROGRAMS - 1:
        tl.store(out, tl.sum(tl.load(partial + tl.arange(0, PROGRAMS))))


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("programs", [1, 4, 32])
def test_the_last_program_adds_what_all_have_stored(programs, num_warps):
    x = values("int32", programs * 64, 9, -100, 100)
    partial, counter, out = np.zeros(programs, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(last_adds, programs, x, partial, counter, out, PROGRAMS=programs, BLOCK=64, num_warps=num_warps)
    assert out[0] == x.sum()


@triton.jit
def copy_tiles(source, target, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.program_id(0) * M, tl.program_id(1) * N
    target.store([m, n], source.load([m, n]))


@triton.jit
def copy_tiles_of_pointers(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [M, N])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [M, N])
    m, n = tl.program_id(0) * M, tl.program_id(1) * N
    target.store([m, n], source.load([m, n]))


@pytest.mark.parametrize("made", ["outside", "inside"])
@pytest.mark.parametrize("shape", [(32, 64), (33, 64), (17, 48), (5, 16)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_tensor_descriptors_clip_tiles(dtype, shape, made):
    x, out = (torch.from_numpy(one) for one in (values(dtype, shape, 10), np.zeros(shape, NUMPY[dtype])))
    grid = (triton.cdiv(shape[0], 16), triton.cdiv(shape[1], 32))
    if made == "inside":
        run(copy_tiles_of_pointers, grid, x, out, *shape, M=16, N=32)
    else:
        source, target = (TensorDescriptor.from_tensor(one, [16, 32]) for one in (x, out))
        run(copy_tiles, grid, source, target, M=16, N=32)
    assert torch.equal(x, out)


@triton.jit
def double_in_place(x, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) * 2, mask=offsets < n)


@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_updates_in_place(dtype, num_warps):
    x = values(dtype, 1000, 11, -50, 50)
    expected = x * 2
    run(double_in_place, 1, x, 1000, BLOCK=256, num_warps=num_warps)
    assert np.array_equal(x, expected)


@triton.jit
def sum_of_many(pointers, out, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    offsets = tl.arange(0, BLOCK)
    for index in tl.static_range(COUNT):
        total += tl.load(pointers[index] + offsets, mask=offsets < n, other=0.0)
    tl.store(out + offsets, total, mask=offsets < n)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_tuples_of_tensors(count):
    tensors = [torch.from_numpy(values("float32", 100, seed)) for seed in range(count)]
    out = torch.zeros(100)
    run(sum_of_many, 1, tuple(tensors), out, 100, COUNT=count, BLOCK=128)
    assert torch.allclose(out, sum(tensors), atol=1e-5)
