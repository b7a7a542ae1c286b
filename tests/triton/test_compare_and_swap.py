"""Plain reads with which a compare-and-swap loop begins, and reads whose value is used otherwise."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from gpuemu.triton import emulated


@triton.jit
def multiply(x, out, n, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    factor = tl.load(x + offsets, mask=inside, other=1)
    done = tl.where(inside, 0, 1).to(tl.int1)
    all_done = False
    while not all_done:
        old = tl.load(out + offsets % LENGTH, mask=inside, other=0)
        new = tl.where(done, old, old * factor)
        done |= tl.atomic_cas(out + offsets % LENGTH, old, new, sem="relaxed") == old
        all_done = tl.sum(done.to(tl.int32)) == BLOCK


@triton.jit
def multiply_and_keep(x, out, kept, n, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    factor = tl.load(x + offsets)
    old = tl.load(out + offsets % LENGTH)
    tl.store(kept + offsets, old)
    tl.atomic_cas(out + offsets % LENGTH, old, old * factor, sem="relaxed")


@triton.jit
def lock_and_add(lock, total, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize(
    ("length", "dtype"), [(4, torch.float32), (1, torch.int32), (128, torch.int64), (4, torch.float64)]
)
def test_a_read_that_is_compared_again_is_not_a_race(length, dtype, num_warps):
    with emulated() as session:
        x, out = torch.ones(500, dtype=dtype, device="cuda"), torch.ones(length, dtype=dtype, device="cuda")
        x[::50] = 2
        multiply[(4,)](x, out, 500, LENGTH=length, BLOCK=128, num_warps=num_warps)
    assert out.prod().item() == 2.0**10 and not session.findings


def test_a_read_that_is_stored_too_is_a_race():
    with emulated(on_finding="collect") as session:
        x, kept = torch.full((512,), 2.0), torch.zeros(512)
        multiply_and_keep[(4,)](x, torch.ones(128), kept, 512, LENGTH=128, BLOCK=128)
    assert {finding.rule for finding in session.findings} == {"memory/global-race"}


def test_a_lock_by_compare_and_swap_orders_plain_accesses():
    with emulated() as session:
        lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
        lock_and_add[(8,)](lock, total, BLOCK=128)
    assert total.item() == 8 and not session.findings
