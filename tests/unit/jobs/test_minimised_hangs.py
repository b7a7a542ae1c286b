"""Launches that do not end, as a program makes them: a smaller one ends at the same number of steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.check.model import MinimisedFailure
from gpuemu_lsp.engine.jobs.functions import checked
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.jobs.stored.minimise import minimise_case
from gpuemu_lsp.engine.shrink import ShrinkBudget
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions

PROGRAM = """\
#include <cstdlib>
__global__ void count(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i], steps = 0;
    while (v > 0) {
        v -= v / 2;
        ++steps;
    }
    y[i] = steps;
}
int main(int argc, char** argv) {
    int n = atoi(argv[1]);
    int *x, *y, *values = (int*)malloc(n * sizeof(int));
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&y, n * sizeof(int));
    for (int i = 0; i < n; ++i) values[i] = rand() % 1000;
    cudaMemcpy(x, values, n * sizeof(int), cudaMemcpyHostToDevice);
    count<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""


def test_the_smallest_launch_that_hangs_has_one_element(tmp_path: Path) -> None:
    (tmp_path / "count.cu").write_text(PROGRAM)
    (request,) = collect([str(tmp_path / "count.cu")], CheckOptions(), tmp_path).requests
    request = replace(request, options=replace(request.options, store_root=tmp_path))
    assert "sync/hang" in {getattr(event, "rule", "") for event in checked(request)}
    with Store(tmp_path) as store:
        (failure,) = [one.failure for one in store.failures()]
        *_, smallest = minimise_case(request, failure, failure.case, "all", ShrinkBudget(), store)
    assert isinstance(smallest, MinimisedFailure)
    assert dict(smallest.replay.dims) == {"n": 1}
    assert smallest.complete
