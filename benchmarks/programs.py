"""What checks of whole programs cost: launches of tiny kernels, and a launch over large arrays.

    python -m benchmarks.programs [--mebibytes 256] [--launches 1000]

It needs nvcc, the extra ``run``. Seconds are measured in the program itself. Memory speed is that of the same loop on
the host, on arrays that have been touched, without a check.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

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

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int, char** argv) {
    int launches = atoi(argv[1]);
    size_t bytes = size_t(atoi(argv[2])) << 20, n = bytes / 4;
    float *small, *x, *y;
    cudaMalloc(&small, 1024);
    cudaMemset(small, 0, 1024);
    tiny<<<1, 256>>>(small, 0);
    double start = now();
    for (int i = 0; i < launches; i++) tiny<<<1, 256>>>(small, i);
    printf("tiny launch, ms: %.3f\n", (now() - start) * 1e3 / launches);

    std::vector<float> a(n, 1.0f), b(n, 2.0f);
    double host = 1e9;
    for (int i = 0; i < 3; i++) {
        start = now();
        for (size_t j = 0; j < n; j++) b[j] = 2 * a[j] + b[j];
        if (now() - start < host) host = now() - start;
    }
    cudaMalloc(&x, bytes);
    cudaMalloc(&y, bytes);
    cudaMemcpy(x, a.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(y, a.data(), bytes, cudaMemcpyHostToDevice);
    printf("the loop on the host, s: %.3f\n", host);
    for (int i = 0; i < 3; i++) {
        start = now();
        saxpy<<<unsigned((n + 255) / 256), 256>>>(n, 2, x, y);
        double seconds = now() - start;
        printf("launch %d, s: %.3f, %.1f times\n", i + 1, seconds, seconds / host);
    }
    cudaMemcpy(b.data(), y, bytes, cudaMemcpyDeviceToHost);
    for (size_t j = 0; j < n; j++)
        if (b[j] != 7) return puts("wrong"), 1;
    return 0;
}
"""


def main() -> int:
    """Build the program, run it, print what it printed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--mebibytes", type=int, default=256, help="size of each of the two arrays")
    arguments = parser.parse_args()
    gpuemu = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "cost.cu"), Path(folder, "cost")
        source.write_text(SOURCE)
        subprocess.run([*gpuemu, "nvcc", "-O2", "-o", str(program), str(source)], check=True)
        words = [str(arguments.launches), str(arguments.mebibytes)]
        done = subprocess.run([*gpuemu, "run", str(program), "--", *words], check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
