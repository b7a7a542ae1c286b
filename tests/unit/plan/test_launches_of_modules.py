"""Kernels of a module that a program finds by their names, in a file that does not include them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

KERNEL = """
extern "C" __global__ void halve(const float* in, float* out, long* sum, int n) {
  __shared__ float part[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? in[i] : 0.0f;
  if (i < n) out[i] = part[threadIdx.x] / 2;
  if (i GUARD n) sum[i] = i;  // wrong
}
"""
DRIVER = """
#include <cuda.h>
#include <stdlib.h>
#define CHECK_DRIVER(call) if ((call) != CUDA_SUCCESS) exit(1)
static CUfunction find(CUmodule module) {
  CUfunction function;
  CHECK_DRIVER(cuModuleGetFunction(&function, module, "halve"));
  return function;
}
int main() {
  const int n = 1000;
  CUmodule module;
  CHECK_DRIVER(cuModuleLoad(&module, "halve_kernels.ptx"));
  float* host = (float*)malloc(n * sizeof(float));
  CUdeviceptr in, out, sum;
  CHECK_DRIVER(cuMemAlloc(&in, n * sizeof(float)));
  CHECK_DRIVER(cuMemAlloc(&out, n * sizeof(float)));
  CHECK_DRIVER(cuMemAlloc(&sum, n * sizeof(long)));
  CHECK_DRIVER(cuMemcpyHtoD(in, host, n * sizeof(float)));
  CHECK_DRIVER(cuMemsetD32(sum, 0, n * 2));
  int count = n;
  void* addresses[] = {(void*)&in, &out, &sum, &count};
  dim3 block(128), grid((n + block.x - 1) / block.x);
  CHECK_DRIVER(cuLaunchKernel(find(module), grid.x, grid.y, 1, block.x, 1, 1, 0, 0, ADDRESSES, 0));
  CHECK_DRIVER(cuMemcpyDtoH(host, out, n * sizeof(float)));
}
"""


def check(path: Path) -> tuple[list[KernelReport], list[Finding]]:
    requests = collect([str(path)], CheckOptions(), path.parent).requests
    events = [event for request in requests for event in check_kernel(request)]
    return [one for one in events if isinstance(one, KernelReport)], [one for one in events if isinstance(one, Finding)]


def errors_of(folder: Path, kernel: str, driver: str, place: str) -> list[int]:
    (folder / ".git").mkdir(exist_ok=True)  # The project ends here.
    source = folder / "halve_kernels.cu"
    source.write_text(kernel)
    program = folder / place
    program.parent.mkdir(exist_ok=True)
    program.write_text(driver)
    reports, found = check(source)
    assert [report.status for report in reports] != ["not-executed"], [one.message for one in found]
    return [one.place.range.start.line for one in found if one.severity is Severity.ERROR]


@pytest.mark.parametrize("place", ["driver.cpp", "host/driver.cpp"])
@pytest.mark.parametrize("addresses", ["addresses", "&addresses[0]"])
def test_a_launch_of_the_driver_api(tmp_path: Path, place: str, addresses: str) -> None:
    driver = DRIVER.replace("ADDRESSES", addresses)
    line = KERNEL.split("\n").index("  if (i GUARD n) sum[i] = i;  // wrong")
    assert errors_of(tmp_path, KERNEL.replace("GUARD", "<"), driver, place) == []
    assert line in errors_of(tmp_path, KERNEL.replace("GUARD", "<="), driver, place)


def test_a_kernel_of_the_same_name_in_another_module(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    source = tmp_path / "halve_kernels.cu"
    source.write_text(KERNEL.replace("GUARD", "<"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "driver.cpp").write_text(
        DRIVER.replace("halve_kernels", "other_kernels").replace("ADDRESSES", "addresses")
    )
    _, found = check(source)
    assert not [one for one in found if "driver.cpp" in one.message]


TEMPLATE = """
template <int TILE> __global__ void reversed(const int* in, int* out) {
  __shared__ int tile[TILE];
  tile[threadIdx.x] = in[blockIdx.x * TILE + threadIdx.x];
  BARRIER
  out[blockIdx.x * TILE + threadIdx.x] = tile[TILE - 1 - threadIdx.x];  // wrong
}
"""
COMPILED = """
#include <nvrtc.h>
#include <cuda.h>
int main(int argc, char** argv) {
  nvrtcProgram program;
  nvrtcAddNameExpression(program, "reversed<64>");
  nvrtcCompileProgram(program, 0, 0);
  const char* lowered;
  nvrtcGetLoweredName(program, "reversed<64>", &lowered);
  CUmodule module;
  CUfunction function;
  cuModuleGetFunction(&function, module, lowered);
  CUdeviceptr in, out;
  cuMemAlloc(&in, 640 * sizeof(int));
  cuMemAlloc(&out, 640 * sizeof(int));
  cuMemsetD32(in, 0, 640);
  void* addresses[] = {&in, &out};
  cuLaunchKernel(function, 10, 1, 1, 64, 1, 1, 0, 0, addresses, 0);
}
"""


def test_an_instance_that_nvrtc_compiles(tmp_path: Path) -> None:
    correct = TEMPLATE.replace("BARRIER", "__syncthreads();")
    line = TEMPLATE.split("\n").index(
        "  out[blockIdx.x * TILE + threadIdx.x] = tile[TILE - 1 - threadIdx.x];  // wrong"
    )
    assert errors_of(tmp_path, correct, COMPILED, "program.cpp") == []
    assert line in errors_of(tmp_path, TEMPLATE.replace("BARRIER", ""), COMPILED, "program.cpp")
