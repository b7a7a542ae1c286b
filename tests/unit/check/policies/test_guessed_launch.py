"""Kernels without a known launch: what a wrong guess may have caused is not reported as a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

ONE_WARP = """__global__ void running(float* x, int cols) {
  float carry = 0.f;
  for (int base = 0; base < cols; base += 32) {
    int c = base + threadIdx.x;
    float v = c < cols ? x[blockIdx.x * cols + c] : 0.f;
    for (int d = 1; d < 32; d *= 2) {
      float u = __shfl_up_sync(~0u, v, d);
      if (threadIdx.x >= d) v += u;
    }
    if (c < cols) x[blockIdx.x * cols + c] = v + carry;
    carry += __shfl_sync(~0u, v, 31);
  }
}
"""
ONE_THREAD = "__global__ void running(float* x, int n) { for (int i = 1; i < n; ++i) x[i] += x[i - 1]; }\n"
ONE_BLOCK = """__global__ void normalise(float* x, int n) {
  __shared__ float s[1024];
  float v = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i] * x[i];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] *= rsqrtf(s[0]);
}
"""
MIRRORED = """__global__ void mirrored(const float* x, float* y, int n) {
  __shared__ float s[64];
  int i = blockIdx.x * 64 + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = s[63 - threadIdx.x];
}
"""


def mistakes(folder: Path, cu: str) -> tuple[str, set[str]]:
    """Return the status of the only kernel and the rules of its errors and warnings."""
    path = folder / "k.cu"
    path.write_text(cu)
    (request,) = collect([str(path)], CheckOptions(), folder).requests
    *events, report = check_kernel(request)
    findings = [event for event in events if isinstance(event, Finding)]
    return report.status, {one.rule for one in findings if one.severity in ("error", "warning")}


@pytest.mark.parametrize("cu", [ONE_WARP, ONE_THREAD, ONE_BLOCK, MIRRORED], ids=["warp", "thread", "block", "literal"])
def test_a_kernel_written_for_one_launch_is_not_flagged_for_another(tmp_path: Path, cu: str) -> None:
    status, rules = mistakes(tmp_path, cu)
    assert rules == set()
    assert status == "unreferenced"


@pytest.mark.parametrize(("cu", "lost"), [(ONE_BLOCK, "    __syncthreads();\n"), (MIRRORED, "  __syncthreads();\n")])
def test_a_barrier_that_is_missing_in_any_launch_is_found(tmp_path: Path, cu: str, lost: str) -> None:
    assert cu.count(lost) >= 1
    status, rules = mistakes(tmp_path, cu.replace(lost, "", 1))
    assert "memory/shared-race" in rules
    assert status == "failed"


def test_sizes_that_a_kernel_refuses_do_not_make_it_one_that_did_not_run(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("""__global__ void eights(const float* x, float* y, int n) {
  if (n % 8) __trap();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
""")
    (request,) = collect([str(path)], CheckOptions(), tmp_path).requests
    *events, report = check_kernel(request)
    assert (report.status, report.cases.run) == ("unreferenced", 16) and 0 < report.cases.passed < 16
    assert [one.rule for one in events if isinstance(one, Finding) and one.rule == "engine/not-executed"] == []
    said = f"'eights' was checked on {report.cases.passed} of 16 cases only"
    assert [one.severity for one in events if isinstance(one, Finding) and said in one.message] == ["hint"]
