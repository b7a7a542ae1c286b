"""A program in HIP: built by ``gpuemu nvcc`` from two sources, run by ``gpuemu run``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.nvcc import required_nvcc

GPUEMU = (sys.executable, "-m", "gpuemu_lsp.cli.gpuemu")
KERNELS = """#include <hip/hip_runtime.h>
__global__ void scale(float* x, int n) {
    int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    if (i < n) x[i] *= 2.0f;
}
__global__ void lockstep(float* x) {
    __shared__ volatile float part[64];
    part[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = part[63 - threadIdx.x];
}
void launch(float* x, int n) { hipLaunchKernelGGL(scale, dim3((n + 255) / 256), dim3(256), 0, 0, x, n); }
void reverse(float* x) { lockstep<<<1, 64>>>(x); }
"""
MAIN = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
void launch(float* x, int n);
void reverse(float* x);
int main(int argc, char**) {
    std::vector<float> host(1000, 3.0f);
    float* x;
    hipError_t status = hipMalloc(&x, 4000);
    if (status != hipSuccess) return 3;
    hipMemcpy(x, host.data(), 4000, hipMemcpyHostToDevice);
    if (argc > 1) reverse(x); else launch(x, 1000);
    hipMemcpy(host.data(), x, 4000, hipMemcpyDeviceToHost);
    hipDeviceProp_t properties;
    hipGetDeviceProperties(&properties, 0);
    printf("%g %d\\n", host[999], properties.warpSize);
}
"""


def gpuemu(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GPUEMU, *words], capture_output=True, text=True, timeout=280, check=False)


def test_a_program_of_two_sources_runs_and_a_race_in_a_wavefront_is_not_judged(tmp_path: Path) -> None:
    required_nvcc()
    program = tmp_path / "program"
    (tmp_path / "kernels.hip").write_text(KERNELS)
    (tmp_path / "main.cpp").write_text(MAIN)
    built = gpuemu("nvcc", str(tmp_path / "kernels.hip"), str(tmp_path / "main.cpp"), "-o", str(program))
    assert built.returncode == 0, built.stderr
    done = gpuemu("run", str(program))
    assert (done.stdout, done.returncode) == ("6 64\n", 0), done.stderr
    done = gpuemu("run", str(program), "--", "reverse")
    assert done.returncode == 2, done.stderr
    assert "kernels.hip:9:" in done.stderr and "may rely on lockstep" in done.stderr and "error[" not in done.stderr
