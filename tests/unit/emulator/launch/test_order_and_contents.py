"""Options of a launch that CUDA leaves open: the order of blocks and warps, the contents of uninitialised memory."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, result

from gpuemu_lsp.engine.emulator.abi.memory import POISON
from gpuemu_lsp.engine.execution import Checks, Request

LAST_WRITER = 'extern "C" __global__ void k(int* y) { *(volatile int*)y = blockIdx.x * 1000 + threadIdx.x / 32; }'
SHARED = """extern "C" __global__ void k(unsigned* y) {
    __shared__ unsigned s[32];
    if (y == nullptr) s[0] = 1;
    y[threadIdx.x] = ((volatile unsigned*)s)[threadIdx.x];
}"""
LOCAL = """extern "C" __global__ void k(unsigned* y, int at) {
    volatile unsigned a[4];
    if (at > 7) a[at & 3] = 1;
    y[threadIdx.x + 32 * blockIdx.x] = a[at & 3];
    a[at & 3] = 5;
}"""
UNCHECKED = Checks(races=False, uninitialized=False)


@pytest.mark.parametrize(("descending", "last"), [(False, 3007), (True, 0)])
def test_the_last_writer_depends_on_the_order_of_blocks_and_warps(descending: bool, last: int) -> None:
    outcome = launch(LAST_WRITER, 4, 256, out(np.zeros(1, np.int32)), checks=UNCHECKED, descending=descending)
    assert result(outcome, 0, np.int32).tolist() == [last]


@pytest.mark.parametrize("fill", [0x00, 0xFF, POISON])
def test_uninitialised_shared_memory_has_the_requested_contents(fill: int) -> None:
    outcome = launch(SHARED, 2, 32, out(np.zeros(32, np.uint32)), fill=fill)
    assert set(result(outcome, 0, np.uint32).tolist()) == {fill * 0x01010101}


@pytest.mark.parametrize("fill", [0x00, POISON])
def test_a_block_does_not_see_the_local_memory_of_the_one_before(fill: int) -> None:
    outcome = launch(LOCAL, 3, 32, out(np.zeros(96, np.uint32)), np.int32(2), fill=fill)
    assert set(result(outcome, 0, np.uint32).tolist()) == {fill * 0x01010101}


def test_memory_is_filled_with_the_emulators_poison_by_default() -> None:
    assert Request.__dataclass_fields__["fill"].default == POISON
