"""A loop that is long on the sizes of the program: the time limit does not show that it has no end."""

from __future__ import annotations

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

LONG = """
#include <cuda_runtime.h>
__global__ void slow(float* x, int n, long long rounds) {
  int i = threadIdx.x;
  float v = x[i];
  for (long long k = 0; k < rounds; ++k) v = v * 0.5f + x[(i + k) % n];
  x[i] = v;
}
int main() {
  float* x;
  cudaMalloc(&x, 64 * sizeof(float));
  cudaMemset(x, 0, 64 * sizeof(float));
  slow<<<1, 64>>>(x, 64, 1000000000LL);
  float y[64];
  cudaMemcpy(y, x, sizeof(y), cudaMemcpyDeviceToHost);
}
"""


def test_a_long_loop_of_the_program_is_not_a_hang(tmp_path):
    (tmp_path / "slow.cu").write_text(LONG)
    options = CheckOptions(cases=1, case_seconds=0.5, store_root=None)
    (request,) = collect([str(tmp_path / "slow.cu")], options, tmp_path).requests
    found = [event for event in check_kernel(request) if isinstance(event, Finding)]
    assert [one.rule for one in found if one.severity is Severity.ERROR] == []
    assert any(one.message.startswith("'") and "was not checked: " in one.message for one in found)


BLOCKS = """
#include <cuda_runtime.h>
__global__ void slow(float* x, long long rounds) {
  if (gridDim.x < 8) rounds = 1;
  float v = x[blockIdx.x * 64 + threadIdx.x];
  for (long long k = 0; k < rounds; ++k) v = v * 0.5f + 1.0f;
  x[blockIdx.x * 64 + threadIdx.x] = v;
}
void run(int n, const float* y) {
  float* x;
  cudaMalloc(&x, n * 64 * sizeof(float));
  cudaMemcpy(x, y, n * 64 * sizeof(float), cudaMemcpyHostToDevice);
  slow<<<n, 64>>>(x, 1000000000LL);
}
"""


def test_smaller_cases_follow_one_that_takes_too_long(tmp_path):
    """The loop of eight blocks takes longer than the limit, that of fewer does not."""
    (tmp_path / "slow.cu").write_text(BLOCKS)
    options = CheckOptions(case_seconds=0.5, store_root=None)
    (request,) = collect([str(tmp_path / "slow.cu")], options, tmp_path).requests
    *events, report = check_kernel(request)
    found = [one.message for one in events if isinstance(one, Finding)]
    assert report.status == "unreferenced" and report.cases.passed >= 3, found
    assert any("cases only: " in message and "did not come to its end in 0.5 s" in message for message in found), found
