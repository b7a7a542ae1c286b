"""Tensors that hold addresses of other tensors."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl

from gpuemu.triton import emulated


def line_of(function, text):
    """Return the 1-based line of this file on which `text` stands in a kernel."""
    lines, first = inspect.getsourcelines(function.fn)
    return first + next(index for index, line in enumerate(lines) if text in line)


def found(session):
    return [(finding.rule, finding.place.range.start.line + 1) for finding in session.findings]


@triton.jit
def double_each(addresses, n, BLOCK: tl.constexpr):
    part = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    value = tl.load(part + offsets, mask=offsets < n)
    tl.store(part + offsets, value * 2, mask=offsets < n)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint64])
def test_kernels_reach_the_tensors_whose_addresses_a_tensor_holds(device, dtype):
    with emulated() as session:
        parts = [torch.full((size,), float(size), device=device) for size in (32, 40, 5000)]
        addresses = torch.tensor([part.data_ptr() for part in parts], dtype=dtype, device=device)
        before = addresses.tolist()
        double_each[(3,)](addresses, 32, BLOCK=32)
    assert addresses.tolist() == before and not session.findings
    assert [part[:32].tolist() for part in parts] == [[2.0 * size] * 32 for size in (32, 40, 5000)]
    assert all((part[32:] == len(part)).all() for part in parts)


def test_views_are_reached_at_their_offset():
    whole = torch.arange(100, dtype=torch.float32)
    addresses = torch.tensor([whole[10:20].data_ptr(), whole[50:].data_ptr()])
    with emulated() as session:
        double_each[(2,)](addresses, 10, BLOCK=16)
    expected = torch.arange(100, dtype=torch.float32)
    expected[10:20] *= 2
    expected[50:60] *= 2
    assert torch.equal(whole, expected) and not session.findings


def test_an_access_past_the_end_of_such_a_tensor_is_out_of_bounds():
    parts = [torch.ones(32), torch.ones(30)]
    with emulated(on_finding="collect") as session:
        double_each[(2,)](torch.tensor([part.data_ptr() for part in parts]), 32, BLOCK=32)
    line = line_of(double_each, "value =")
    assert found(session) == [
        ("memory/out-of-bounds", line),
        ("memory/out-of-bounds", line_of(double_each, "tl.store")),
    ]
    assert session.findings[0].message == ("read of addresses[1][30] is out of bounds: addresses[1] has 30 elements")


def test_the_address_of_a_freed_tensor_is_out_of_bounds():
    address = torch.ones(100_000).data_ptr()
    with emulated(on_finding="collect") as session:
        double_each[(1,)](torch.tensor([address]), 32, BLOCK=32)
    assert {rule for rule, _ in found(session)} == {"memory/out-of-bounds"}


def test_programs_that_reach_one_tensor_race():
    part = torch.ones(32)
    with emulated(on_finding="collect") as session:
        double_each[(2,)](torch.tensor([part.data_ptr()] * 2), 32, BLOCK=32)
    assert {rule for rule, _ in found(session)} == {"memory/global-race"}


@triton.jit
def double_from_each(addresses, out, BLOCK: tl.constexpr):
    part = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + offsets, tl.load(part + offsets) * 2)


def test_an_argument_and_an_address_of_one_tensor_share_memory():
    out = torch.ones(64)
    addresses = torch.tensor([out[32:].data_ptr(), torch.ones(32).data_ptr()])
    with emulated() as session:
        double_from_each[(1,)](addresses, out, BLOCK=32)
    assert out.tolist() == [2.0] * 32 + [1.0] * 32 and not session.findings
    with emulated(on_finding="collect") as session:
        double_from_each[(2,)](torch.tensor([out[32:].data_ptr(), out.data_ptr()]), out, BLOCK=32)
    assert {rule for rule, _ in found(session)} == {"memory/global-race"}


@triton.jit
def store_addresses(base, addresses, stride, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(addresses + offsets, (base + offsets * stride).to(tl.int64))


def test_addresses_that_a_kernel_stores_are_those_of_the_process():
    base, addresses = torch.ones(4, 32), torch.zeros(4, dtype=torch.int64)
    with emulated() as session:
        store_addresses[(1,)](base, addresses, base.stride(0), BLOCK=4)
        assert addresses.tolist() == [row.data_ptr() for row in base]
        double_each[(4,)](addresses, 32, BLOCK=32)
    assert (base == 2).all() and not session.findings


@triton.jit
def double_at(address, BLOCK: tl.constexpr):
    part = address.to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    tl.store(part + offsets, tl.load(part + offsets) * 2)


def test_an_address_is_an_integer_argument():
    part = torch.ones(32)
    with emulated() as session:
        double_at[(1,)](part.data_ptr(), BLOCK=32)
    assert (part == 2).all() and not session.findings


@triton.jit
def double_through_two(tables, BLOCK: tl.constexpr):
    table = tl.load(tables).to(tl.pointer_type(tl.int64))
    part = tl.load(table).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    tl.store(part + offsets, tl.load(part + offsets) * 2)


def test_an_address_of_addresses():
    part = torch.ones(32)
    table = torch.tensor([part.data_ptr()])
    with emulated() as session:
        double_through_two[(1,)](torch.tensor([table.data_ptr()]), BLOCK=32)
    assert (part == 2).all() and not session.findings


@triton.jit
def add_integers(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets) + 1)


@pytest.mark.parametrize("start", [0, 2**20, 1_700_000_000_000, 2**46, 2**62])
def test_integers_that_are_not_addresses_stay_as_they_are(start):
    x = torch.arange(start, start + 512 * 16, 16)
    out = torch.zeros_like(x)
    with emulated() as session:
        add_integers[(1,)](x, out, BLOCK=512)
    assert torch.equal(out, x + 1) and not session.findings
