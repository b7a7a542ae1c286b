"""Small programs as demonstrations of sanitizers are: one kernel, sizes as constants in ``main``, nothing configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

HERE = Path(__file__).parent / "demonstrations"
NAMES = sorted(path.name for path in (HERE / "planted").glob("*.cu"))
# Half of the counters each: the host writes all of them, in two calls, in a loop, or where it is not known.
COUNTING = """
__global__ void count(const int* values, unsigned* counters, int n) {
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n) atomicAdd(&counters[values[i] % 16], 1u);
}
unsigned* last(unsigned* first);
int main() {
    const int n = 512;
    static int host[n];
    for (int i = 0; i < n; ++i) host[i] = rand() % 1000;
    int* values;
    unsigned* counters;
    cudaMalloc(&values, n * sizeof(int));
    cudaMalloc(&counters, 16 * sizeof(unsigned));
    cudaMemcpy(values, host, n * sizeof(int), cudaMemcpyHostToDevice);
    FILL
    count<<<(n + 255) / 256, 256>>>(values, counters, n);
}
"""
# The next tile is loaded ahead, also after the last one: its value is used only if there is one more.
AHEAD = """
__global__ void sums(const float* x, float* y, int tiles) {
    __shared__ float held[2][32];
    int t = threadIdx.x, stage = 0;
    held[0][t] = x[t];
    __syncwarp();
    float sum = 0.0f, value = held[0][31 - t];
    int tile = 0;
    do {
        ++tile;
        if (tile < tiles) held[stage ^ 1][t] = x[32 * tile + t];
        __syncwarp();
        sum += value;
        value = held[stage ^ 1][31 - t];
        __syncwarp();
        stage ^= 1;
    } while (tile < tiles);
    y[t] = sumEND;
}
int main(int argc, char** argv) {
    int tiles = 1;
    float *x, *y;
    cudaMalloc(&x, tiles * 32 * sizeof(float));
    cudaMalloc(&y, 32 * sizeof(float));
    cudaMemset(x, 0, tiles * 32 * sizeof(float));
    sums<<<1, 32>>>(x, y, tiles);
}
"""

CACHE = """
#include <cuda_runtime.h>
__global__ void last_page(const float* cache, float* y, int used) {
    float value = cache[threadIdx.x];
    y[threadIdx.x] = USED;
}
int main() {
    float *cache, *y;
    cudaMalloc(&cache, 64 * sizeof(float));
    cudaMalloc(&y, 64 * sizeof(float));
    cudaMemset(cache, 0, 40 * sizeof(float));
    last_page<<<1, 64>>>(cache, y, 40);
}
"""


def _checked(source: Path) -> tuple[set[tuple[str, int]], KernelReport]:
    """Return the rules and 0-based lines of the findings of a program, hints aside, and the report of its kernel."""
    targets = collect([str(source)], CheckOptions(cases=4), source.parent)
    (request,) = targets.requests
    *events, report = check_kernel(request)
    assert isinstance(report, KernelReport)
    findings = [one for one in (*targets.findings, *events) if isinstance(one, Finding)]
    shown = [one for one in findings if one.severity in (Severity.ERROR, Severity.WARNING)]
    return {(one.rule, one.place.range.start.line) for one in shown}, report


@pytest.mark.parametrize("name", NAMES)
def test_a_demonstration_is_found_on_its_line_and_its_correction_is_silent(name: str) -> None:
    planted = HERE / "planted" / name
    lines = planted.read_text().splitlines()
    (marked,) = [number for number, line in enumerate(lines) if "// bug: " in line]
    found, _ = _checked(planted)
    assert (lines[marked].rpartition("// bug: ")[2], marked) in found
    silent, report = _checked(HERE / "corrected" / name)
    assert (silent, report.status) == (set(), "unreferenced")


@pytest.mark.parametrize(
    ("fill", "unwritten"),
    [
        ("cudaMemcpy(counters, host, 32, cudaMemcpyHostToDevice);", True),
        ("cudaMemset(counters, 0, 32); cudaMemset(counters + 8, 0, 32);", False),
        ("for (int i = 0; i < 16; ++i) cudaMemset(counters + i, 0, 4);", False),
        ("for (int i = 0; i < 64; i += 4) cudaMemset((char*)counters + i, 0, 4);", False),
        ("cudaMemset(counters, 0, 32); cudaMemset(last(counters), 0, 32);", False),
        ("if (host[0]) cudaMemset(counters, 0, 32); else cudaMemset(counters, 0, 64);", False),
    ],
)
def test_which_bytes_the_host_has_not_written(tmp_path: Path, fill: str, unwritten: bool) -> None:
    program = tmp_path / "count.cu"
    program.write_text(COUNTING.replace("FILL", fill))
    found, report = _checked(program)
    assert {rule for rule, _ in found} == ({"memory/uninitialized-read"} if unwritten else set())
    assert report.status == ("failed" if unwritten else "unreferenced")


@pytest.mark.parametrize("end", ["", " + (tiles == 1 ? fmaxf(value, 0.0f) : 0.0f)"], ids=["discarded", "used"])
def test_a_value_read_ahead_and_discarded_is_not_an_error(tmp_path: Path, end: str) -> None:
    program = tmp_path / "sums.cu"
    program.write_text(AHEAD.replace("END", end))
    found, _ = _checked(program)
    assert {rule for rule, _ in found} == ({"memory/uninitialized-read"} if end else set())


@pytest.mark.parametrize("used", ["threadIdx.x < used ? value : 0.0f", "used > 0 ? value : 0.0f"])
def test_the_rest_of_a_cache_that_is_read_and_discarded_is_not_an_error(tmp_path: Path, used: str) -> None:
    program = tmp_path / "cache.cu"
    program.write_text(CACHE.replace("USED", used))
    found, _ = _checked(program)
    assert {rule for rule, _ in found} == ({"memory/uninitialized-read"} if "> 0" in used else set())
