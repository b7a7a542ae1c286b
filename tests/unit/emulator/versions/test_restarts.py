"""The proof that a launch does not start again, and launches that do."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import artifact, compile_ptx

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CheckerMode, CompiledKernel
from gpuemu_lsp.engine.emulator.versions.restarts import never_starts_again
from gpuemu_lsp.engine.execution import Buffer, Checks, Request, Scalar
from gpuemu_lsp.engine.ptx import parse

ITEMS = 1 << 16
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
NEGATIVE = f"{INDEX} unsigned u = i; u -= 16; if (u < n) y[u] = 1;"
"""Numbers that wrap where they are widened without a sign."""
PAST_GREATEST = f"{INDEX} int u = unsigned(i) + unsigned(offset); if (u > 0) y[(long long)u - offset] = 1;"
"""The last lanes of a warp are past the largest number."""
NO_READS = Checks(uninitialized=False)


def request_of(
    body: str, grid: tuple, block: tuple, offset: int, checks: Checks, *, initialized: bool = True
) -> Request:
    text = f'extern "C" __global__ void k(float* y, const float* x, float** table, int n, int offset) {{ {body} }}'
    data = np.zeros(4 * ITEMS, np.uint8)
    buffers = [
        Buffer(name, data.copy(), initialized=initialized or name == "x", element_size=4)
        for name in ("y", "x", "table")
    ]
    scalars = [Scalar(name, np.int32(value).tobytes()) for name, value in (("n", ITEMS), ("offset", offset))]
    return Request(artifact(compile_ptx(text)), "k", grid, block, 0, (*buffers, *scalars), checks=checks)


def is_proved(request: Request) -> bool:
    kernel = CompiledKernel(parse(request.artifact.ptx), "k")
    _, version = kernel.specialised(request.block, CheckerMode.MEMORY)
    return never_starts_again(kernel.program, version.divergence.shapes, request, detects_races=request.checks.races)


def starts_again(request: Request) -> bool:
    emulator = Emulator(optimised=True)
    assert emulator.run(request).status == "completed"
    return bool(emulator._library.kernel(request.artifact.ptx, "k")[0]._forced_varying)


@pytest.mark.parametrize(
    ("body", "grid", "block", "offset", "proved"),
    [
        (f"{INDEX} if (i < n) y[i] += x[i];", (64, 1, 1), (128, 1, 1), 0, True),
        (f"{INDEX} if (i < n) ((double*)y)[i / 2] += (double)x[i];", (64, 1, 1), (128, 1, 1), 0, True),
        (f"{INDEX} i = min(i, 77); y[max(i, 3)] = x[(i & 31) | 64] + x[i >> 2];", (64, 1, 1), (128, 1, 1), 0, True),
        # Two dimensions, with a width that is an argument.
        (
            f"{INDEX} int j = blockIdx.y * blockDim.y + threadIdx.y; if (i < 64 && j < 64) y[j * offset + i] = 1;",
            (2, 4, 1),
            (32, 8, 1),
            64,
            True,
        ),
        (f"{INDEX} i -= 20; if (i >= 0) y[i] = 1;", (4, 1, 1), (128, 1, 1), 0, True),
        # A warp of fewer threads: the last lane is none.
        (f"{INDEX} if (i < n) y[i] = 1;", (64, 1, 1), (100, 1, 1), 0, False),
        # A loop counter has no interval, but the loop ends before it wraps.
        (f"{INDEX} for (; i < n; i += gridDim.x * blockDim.x) y[i] = 1;", (8, 1, 1), (128, 1, 1), 0, False),
        (NEGATIVE, (4, 1, 1), (128, 1, 1), 0, False),
        (PAST_GREATEST, (1, 1, 1), (128, 1, 1), 2**31 - 16, False),
    ],
)
def test_indices_that_never_wrap(body, grid, block, offset, proved) -> None:
    request = request_of(body, grid, block, offset, NO_READS)
    assert is_proved(request) == proved
    assert not (proved and starts_again(request))


@pytest.mark.parametrize(("body", "offset"), [(NEGATIVE, 0), (PAST_GREATEST, 2**31 - 16)])
def test_a_launch_whose_index_wraps_starts_again(body, offset) -> None:
    assert starts_again(request_of(body, (1, 1, 1), (128, 1, 1), offset, NO_READS))


@pytest.mark.parametrize(
    ("body", "initialized", "proved"),
    [
        (f"{INDEX} y[i] += x[i];", True, True),
        (f"{INDEX} atomicAdd(y + i, x[i]);", True, True),
        (f"{INDEX} y[i] += x[i];", False, False),
        # What an array of pointers leads to is not known.
        (f"{INDEX} y[i] = table[0][i];", True, False),
        (f"{INDEX} __shared__ float s[128]; s[threadIdx.x] = x[i]; y[i] = s[threadIdx.x];", True, False),
        (f"{INDEX} y[i] = tex1Dfetch<float>(*(cudaTextureObject_t*)&x, i);", True, False),
    ],
)
def test_launches_that_read_only_what_is_initialised(body, initialized, proved) -> None:
    assert is_proved(request_of(body, (4, 1, 1), (128, 1, 1), 0, Checks(), initialized=initialized)) == proved


@pytest.mark.parametrize(("races", "proved"), [(True, False), (False, True)])
def test_threads_that_may_wait_at_different_barriers(races, proved) -> None:
    checks = Checks(uninitialized=False, races=races)
    request = request_of(f"{INDEX} float v = x[i]; __syncthreads(); y[i] = v;", (4, 1, 1), (128, 1, 1), 0, checks)
    assert is_proved(request) == proved
