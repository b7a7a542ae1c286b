"""Loads of what another warp of the same program has stored: ordered by a barrier only."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from gpuemu.triton import KernelError, emulated
from gpuemu_lsp.engine.findings import Severity


@triton.jit
def read_neighbour(x, out, DISTANCE: tl.constexpr, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, i * 2)
    if BARRIER:
        tl.debug_barrier()
    j = tl.program_id(0) * BLOCK + (tl.arange(0, BLOCK) + DISTANCE) % BLOCK
    tl.store(out + i, tl.load(x + j))


@triton.jit
def read_scalar(x, out, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x, 7)
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + i, tl.load(x) + i)


@triton.jit
def running_total(x, out, n, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        tl.store(x + i, tl.load(x + (i + 64) % BLOCK) + start)
        if BARRIER:
            tl.debug_barrier()
    tl.store(out + i, tl.load(x + i))


@triton.jit
def shift_in_place(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + (i + 64) % BLOCK))


@triton.jit
def read_own(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for _ in range(4):
        tl.store(x + i, tl.load(x + i) + 1)
    tl.store(out + i, tl.load(x + i))


def races(session):
    assert {finding.rule for finding in session.findings} <= {"memory/global-race"}
    return session.findings


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("distance", [1, 32, 64, 255])
def test_a_load_of_another_warps_store_waits_only_at_a_barrier(distance, barrier):
    with emulated(on_finding="collect") as session:
        x, out = torch.zeros(512, dtype=torch.int32), torch.zeros(512, dtype=torch.int32)
        read_neighbour[(2,)](x, out, DISTANCE=distance, BARRIER=barrier, BLOCK=256, num_warps=4)
    assert bool(races(session)) is not barrier
    for finding in session.findings:
        assert finding.severity is Severity.ERROR and "tl.debug_barrier()" in finding.message
        assert finding.place.range.start.line + 1 == read_neighbour.starting_line_number + 7
    if barrier:
        assert out[:256].tolist() == [(i + distance) % 256 * 2 for i in range(256)]


@pytest.mark.parametrize("barrier", [False, True])
def test_the_load_of_a_stored_scalar_by_all_warps(barrier):
    with emulated(on_finding="collect") as session:
        out = torch.zeros(256, dtype=torch.int32)
        read_scalar[(1,)](torch.zeros(1, dtype=torch.int32), out, BARRIER=barrier, BLOCK=256, num_warps=4)
    assert len(races(session)) == (0 if barrier else 1)


@pytest.mark.parametrize("barrier", [False, True])
def test_a_load_of_the_next_iteration(barrier):
    with emulated(on_finding="collect") as session:
        out = torch.zeros(256, dtype=torch.int32)
        running_total[(1,)](torch.zeros(256, dtype=torch.int32), out, 1024, BARRIER=barrier, BLOCK=256, num_warps=4)
    assert bool(races(session)) is not barrier


def test_loads_before_stores_and_of_own_elements_do_not_race():
    with emulated(on_finding="collect") as session:
        x, out = torch.zeros(256, dtype=torch.int32), torch.zeros(256, dtype=torch.int32)
        shift_in_place[(1,)](x, BLOCK=256, num_warps=4)
        read_own[(1,)](x, out, BLOCK=256, num_warps=4)
        read_neighbour[(2,)](x, out, DISTANCE=1, BARRIER=False, BLOCK=128, num_warps=1)
    assert not session.findings


def test_the_race_fails_a_suite():
    with pytest.raises(KernelError, match="without synchronization"), emulated():
        x, out = torch.zeros(512, dtype=torch.int32), torch.zeros(512, dtype=torch.int32)
        read_neighbour[(2,)](x, out, DISTANCE=64, BARRIER=False, BLOCK=256, num_warps=4)
