"""A loop that is long on the sizes of the program: the time limit does not show that it has no end."""

from __future__ import annotations

from gpuemu_lsp.engine.check.model import CheckOptions
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect

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


def test_a_long_loop_of_the_program_is_no_hang(tmp_path):
    (tmp_path / "slow.cu").write_text(LONG)
    options = CheckOptions(cases=1, case_seconds=0.5, store_root=None)
    (request,) = collect([str(tmp_path / "slow.cu")], options, tmp_path).requests
    found = [event for event in check_kernel(request) if isinstance(event, Finding)]
    assert [one.rule for one in found if one.severity is Severity.ERROR] == []
    assert any("did not run to completion" in one.message for one in found)
