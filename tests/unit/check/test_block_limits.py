"""Launches in the kernel's file whose blocks have more threads than the kernel may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

SCALE = """#include <cuda_runtime.h>
#include <algorithm>
#define MOST 128
template <int B> __global__ void __launch_bounds__(BOUNDS) scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
void other(const float* x, float* y, int n) { scale<64><<<(n + 63) / 64, 64>>>(x, y, n); }
void run(const float* x, float* y, int n, int threads) {
    LAUNCH;
}
"""


def failed_launches(folder: Path, bounds: str, launch: str) -> list[tuple[int, str]]:
    """Return the lines of failed launches and what is said about each."""
    text = SCALE.replace("BOUNDS", bounds).replace("LAUNCH", launch)
    (folder / "scale.cu").write_text(text, encoding="utf-8")
    (request,) = collect(["scale.cu"], CheckOptions(cases=2), folder).requests
    events = [event for event in check_kernel(request, lambda *_: None) if hasattr(event, "message")]
    return [(event.place.range.start.line + 1, event.message) for event in events if event.rule == "api/failed-launch"]


@pytest.mark.parametrize(
    ("bounds", "launch", "threads", "limit"),
    [
        ("MOST", "scale<64><<<(n + 255) / 256, 256>>>(x, y, n)", 256, 128),
        ("B", "scale<64><<<n, dim3(32, 4)>>>(x, y, n)", 128, 64),
        ("1024", "scale<64><<<1, 2048>>>(x, y, n)", 2048, 1024),
    ],
)
def test_a_block_that_the_kernel_may_not_have_is_an_error_at_its_launch(tmp_path, bounds, launch, threads, limit):
    ((line, message),) = failed_launches(tmp_path, bounds, launch)
    assert line == 10 and f"have {threads} threads" in message and str(limit) in message


@pytest.mark.parametrize(
    ("bounds", "launch"),
    [
        ("B", "scale<128><<<(n + 127) / 128, 128>>>(x, y, n)"),  # of another instance
        ("MOST", "scale<64><<<(n + threads - 1) / threads, threads>>>(x, y, n)"),
        ("MOST", "scale<64><<<n, std::min(threads, 128)>>>(x, y, n)"),
    ],
)
def test_a_block_that_may_be_within_the_bounds_is_not_reported(tmp_path, bounds, launch):
    assert failed_launches(tmp_path, bounds, launch) == []
