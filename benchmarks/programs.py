"""What checks of whole programs cost: launches of tiny kernels, launches that repeat, and launches over large arrays.

    python -m benchmarks.programs [--mebibytes 256] [--launches 1000] [--repeats 6000]

It needs nvcc, the extra ``run``. Seconds are measured in the program itself. Memory speed is that of the same loop on
the host, without a check, on arrays that have been touched; loop and launch take turns. The first launches need memory
that was never touched: the time for the first touch of an array by the host is there to compare.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from gpuemu_lsp.engine.execution import Checks
from gpuemu_lsp.engine.runtime.program import run_program
from gpuemu_lsp.engine.runtime.toolchain.nvcc import run_nvcc

SOURCE = r"""
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void saxpy(size_t n, float a, const float* x, float* y) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void tiny(float* x, int step) { x[threadIdx.x] += step; }
__global__ void scale(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int, char** argv) {
    int launches = atoi(argv[1]), repeats = atoi(argv[3]);
    size_t bytes = size_t(atoi(argv[2])) << 20, n = bytes / 4;
    float *small, *x, *y;
    cudaMalloc(&small, 1024);
    cudaMemset(small, 0, 1024);
    for (int i = 0; i < 200; i++) tiny<<<1, 256>>>(small, 2);
    for (int round = 0; round < 3; round++) {
        double start = now();
        for (int i = 0; i < launches; i++) tiny<<<1, 256>>>(small, i + 1);
        printf("tiny launch, ms: %.3f\n", (now() - start) * 1e3 / launches);
    }

    const int some = 1 << 20;
    cudaMalloc(&x, 4 * some);
    cudaMalloc(&y, 4 * some);
    cudaMemset(x, 0, 4 * some);
    double start = now();
    for (int i = 0; i < 2; i++) scale<<<some / 256, 256>>>(some, 2, x, y);
    double distinct = now() - start;
    start = now();
    for (int i = 0; i < repeats; i++) scale<<<some / 256, 256>>>(some, 2, x, y);
    double again = now() - start;
    printf("2 launches, s: %.3f; %d repeats of them, s: %.4f, %.1f %% more\n", distinct, repeats, again,
           100 * again / distinct);

    start = now();
    std::vector<float> a(n, 1.0f);
    printf("first touch of one array by the host, s: %.3f\n", now() - start);
    std::vector<float> b(n, 2.0f);
    cudaMalloc(&x, bytes);
    cudaMalloc(&y, bytes);
    cudaMemcpy(x, a.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(y, a.data(), bytes, cudaMemcpyHostToDevice);
    for (int i = 0; i < 6; i++) {
        double host = 1e9;
        for (int j = 0; j < 2; j++) {
            start = now();
            for (size_t k = 0; k < n; k++) b[k] = 2 * a[k] + b[k];
            if (now() - start < host) host = now() - start;
        }
        start = now();
        saxpy<<<unsigned((n + 255) / 256), 256>>>(n, 2, x, y);
        double seconds = now() - start;
        printf("loop on the host, s: %.3f; launch %d, s: %.3f, %.1f times\n", host, i + 1, seconds, seconds / host);
    }
    cudaMemcpy(b.data(), y, bytes, cudaMemcpyDeviceToHost);
    for (size_t j = 0; j < n; j++)
        if (b[j] != 13) return puts("wrong"), 1;
    return 0;
}
"""


def main() -> int:
    """Build the program, run it with all checks and without any, print what it printed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=6000)
    parser.add_argument("--mebibytes", type=int, default=256, help="size of each of the two arrays")
    arguments = parser.parse_args()
    words = [str(one) for one in (arguments.launches, arguments.mebibytes, arguments.repeats)]
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "cost.cu"), Path(folder, "cost")
        source.write_text(SOURCE)
        if run_nvcc(["-O2", "-o", str(program), str(source)]):
            return 1
        unchecked = Checks(bounds=False, uninitialized=False, races=False, sync=False, contained=False)
        for name, checks in (("all checks", Checks()), ("no check is compiled in", unchecked)):
            print(f"--- {name}", flush=True)
            result = run_program([str(program), *words], checks=checks)
            print(f"{result.completed:,} of {result.launches:,} launches, {len(result.findings)} findings", flush=True)
            status |= result.exit_status
    return status


if __name__ == "__main__":
    sys.exit(main())
