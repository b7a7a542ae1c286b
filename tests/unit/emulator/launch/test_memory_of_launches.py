"""Memory of consecutive launches: results in the caller's arrays, and nothing left of the launch before."""

from __future__ import annotations

import numpy as np
from support.emulator_launch import EMULATOR, artifact, compile_ptx, launch, result, rules

from gpuemu_lsp.engine.emulator.launch.arena import shared_arena
from gpuemu_lsp.engine.execution import Buffer, Request

INCREMENT = 'extern "C" __global__ void k(float* x, float* y) { x[threadIdx.x] += 1; y[threadIdx.x] += 2; }'
LONGER = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = threadIdx.x; }'
READS_SHARED = """extern "C" __global__ void k(float* y) {
  __shared__ float s[64]; if (threadIdx.x > 40) s[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] = s[threadIdx.x]; }"""


def test_results_in_place() -> None:
    x = np.zeros(32, np.float32)
    data = x.view(np.uint8)
    arguments = (Buffer("x", data), Buffer("y", data, alias_of="x"))
    request = Request(artifact(compile_ptx(INCREMENT)), "k", (1, 1, 1), (32, 1, 1), 0, arguments, in_place=True)
    outcome = EMULATOR.run(request)
    assert outcome.status == "completed"
    np.testing.assert_array_equal(x, np.full(32, 3, np.float32))
    assert outcome.buffers["x"] is data
    assert outcome.written is None


def test_no_byte_stays_addressable_after_the_launch() -> None:
    large, small = np.zeros(256, np.float32), np.zeros(32, np.float32)
    assert not launch(LONGER, 1, 256, large).events
    # The buffer of the launch before reached as far as these accesses.
    assert rules(launch(LONGER, 1, 256, small)) == ["memory/out-of-bounds"]
    arena = shared_arena()
    arena.reset()
    assert not arena.shadow(arena.address, 1 << 20).any()


def test_shared_memory_is_uninitialised_in_every_launch() -> None:
    for _ in range(2):
        assert rules(launch(READS_SHARED, 2, 64, np.zeros(64, np.float32))) == ["memory/uninitialized-read"]


def test_more_blocks_than_in_the_launch_before() -> None:
    source = 'extern "C" __global__ void k(int* x) { x[blockIdx.x * 32 + threadIdx.x] = blockIdx.x; }'
    for blocks in (1, 500, 3, 2000):
        x = np.zeros(32 * blocks, np.int32)
        np.testing.assert_array_equal(result(launch(source, blocks, 32, x), 0, np.int32), np.repeat(range(blocks), 32))
