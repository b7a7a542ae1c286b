"""Performance counters of launches, compared with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out

from gpuemu_lsp.engine.execution import Counters, Traffic


def counters(source: str, grid, block, *arguments, **more) -> Counters:
    outcome = launch(source, grid, block, *arguments, counting=True, **more)
    assert outcome.status == "completed" and not outcome.events, outcome.events[:1]
    assert outcome.counted is not None
    return outcome.counted


def traffic(found: Counters, line: int, space: str = "global", opcode: str = "ld") -> Traffic:
    (one,) = (
        one
        for one in found.traffic
        if one.location is not None
        and (one.location.line, one.space, one.instruction.split(".")[0]) == (line, space, opcode)
    )
    return one


def lanes(found: Counters, line: int) -> float:
    """Return the lanes per instruction of a line."""
    here = [one for one in found.activity if one.location is not None and one.location.line == line]
    return sum(one.lanes for one in here) / sum(one.executions for one in here)


SAXPY = """\
extern "C" __global__ void k(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
"""


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "unoptimised"])
def test_saxpy(options) -> None:
    x = np.zeros(1024, np.float32)
    found = counters(SAXPY, 8, 128, x, x.copy(), np.float32(2), np.int32(1000), options=options)
    stored = traffic(found, 4, opcode="st")
    assert (stored.requests, stored.bytes, stored.units, stored.least) == (32, 4000, 125, 125)
    loads = [one for one in found.traffic if one.instruction.startswith("ld") and one.space == "global"]
    assert sum(one.units for one in loads) == 250 and sum(one.requests for one in loads) == 64
    assert found.operations == 2000
    assert found.touched == 8000
    assert lanes(found, 4) == 1000 / 32


def test_no_counters_unless_requested() -> None:
    x = np.zeros(32, np.float32)
    assert launch(SAXPY, 1, 32, x, x.copy(), np.float32(2), np.int32(32)).counted is None


TRANSPOSE = """\
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float tile[32][32 + PAD];
    int i = blockIdx.x * 32, j = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 32; r += 8)
        tile[r][threadIdx.x] = x[(j + r) * n + i + threadIdx.x];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8)
        y[(i + r) * n + j + threadIdx.x] = tile[threadIdx.x][r];
}
"""


@pytest.mark.parametrize(("pad", "passes"), [(0, 32), (1, 1)])
def test_bank_conflicts_of_a_transpose(pad: int, passes: int) -> None:
    x = np.arange(64 * 64, dtype=np.float32)
    found = counters(TRANSPOSE, (2, 2), (32, 8), x, out(x.copy()), np.int32(64), options=(f"-DPAD={pad}",))
    rows = [one for one in found.traffic if one.space == "shared" and one.instruction.startswith("ld")]
    assert sum(one.requests for one in rows) == 128
    assert sum(one.units for one in rows) == 128 * passes
    assert sum(one.least for one in rows) == 128
    written = [one for one in found.traffic if one.space == "shared" and one.instruction.startswith("st")]
    assert sum(one.units for one in written) == 128
    assert all(one.units == one.least == 4 * one.requests for one in found.traffic if one.space == "global")


COLUMN = """\
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = threadIdx.x;
    float sum = 0;
    for (int c = 0; c < n; c++)
        sum += x[i * n + c];
    y[i] = sum;
}
"""


def test_one_row_per_lane_is_uncoalesced() -> None:
    n = 40
    found = counters(COLUMN, 1, 64, np.zeros(64 * n, np.float32), out(np.zeros(64, np.float32)), np.int32(n))
    loads = [one for one in found.traffic if one.instruction.startswith("ld")]
    assert sum(one.requests for one in loads) == 2 * n
    assert sum(one.units for one in loads) == 2 * n * 32
    assert sum(one.least for one in loads) == 2 * n * 4
    assert found.touched == 64 * n * 4 + 64 * 4
    assert found.operations == 64 * n


DIVERGENT = """\
extern "C" __global__ void k(float* y) {
    int i = threadIdx.x;
    if (i % 4 == 0) {
        for (int r = 0; r < 10; r++)
            y[i] += 1.0f + r;
    }
}
"""


def test_inactive_lanes_of_divergent_code() -> None:
    found = counters(DIVERGENT, 1, 64, np.zeros(64, np.float32))
    assert lanes(found, 5) == 8
    assert lanes(found, 3) == 32


def test_a_partial_warp_has_only_its_threads() -> None:
    found = counters(SAXPY, 1, 40, np.zeros(40, np.float32), np.zeros(40, np.float32), np.float32(2), np.int32(40))
    assert lanes(found, 4) == 20
    assert traffic(found, 4, opcode="st").units == 5


INDEPENDENT = """\
extern "C" __global__ void k(float* y, int* lock) {
    __shared__ int turn;
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    while (atomicAdd(&turn, 0) != threadIdx.x);
    y[threadIdx.x] += 1.0f;
    __threadfence_block();
    atomicExch(&turn, threadIdx.x + 1);
}
"""


def test_lanes_in_the_scalar_pc_version() -> None:
    found = counters(INDEPENDENT, 1, 32, np.zeros(32, np.float32), np.zeros(1, np.int32))
    stored = traffic(found, 6, opcode="st")
    assert (stored.requests, stored.units, stored.least) == (32, 32, 32)
    assert traffic(found, 8, "shared", "atom").requests == 32


PRODUCT = """\
extern "C" __global__ void k(float* c) {
    float z[4];
    unsigned x = 0;
    for (int r = 0; r < 3; r++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, "
                     "{%5,%5,%5,%5};" : "=f"(z[0]), "=f"(z[1]), "=f"(z[2]), "=f"(z[3]) : "r"(x), "f"(0.0f));
    for (int r = 0; r < 4; r++)
        c[threadIdx.x * 4 + r] = z[r];
}
"""


def test_operations_of_tensor_cores() -> None:
    assert counters(PRODUCT, 1, 32, out(np.zeros(128, np.float32))).operations == 3 * 2 * 16 * 8 * 16


COPY = """\
extern "C" __global__ void k(const float4* x, float4* y) {
    __shared__ float4 s[32];
    unsigned at = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(x + 2 * threadIdx.x));
    asm volatile("cp.async.wait_all;" ::: "memory");
    y[threadIdx.x] = s[threadIdx.x];
}
"""


def test_asynchronous_copies_count_in_both_spaces() -> None:
    found = counters(COPY, 1, 32, np.zeros(256, np.float32), out(np.zeros(128, np.float32)))
    copies = {one.space: one for one in found.traffic if one.instruction.startswith("cp.")}
    assert (copies["global"].units, copies["global"].least) == (32, 16)
    assert (copies["shared"].units, copies["shared"].least) == (4, 4)
