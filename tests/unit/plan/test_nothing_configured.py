"""Kernels without an entry: no message is about a configuration, and names in messages are those of the source."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

SCATTERED = """
__global__ void scatter(float* out, const float* data, int count) {
  __shared__ float part[64];
  part[threadIdx.x + 1] = data[threadIdx.x];
  __syncthreads();
  out[blockIdx.x * 1000003 + 77777 * threadIdx.x] = part[threadIdx.x] + count;
}
static float* device_out;
void run(float* data, int count) { scatter<<<4, 64>>>(device_out, data, count); }
"""
IMPOSSIBLE = """
__global__ void add(float* x, float* part) { part[blockIdx.x] = x[threadIdx.x]; }
void measure(int* blocks);
int main() {
  int blocks = 0;
  float *x, *part;
  cudaMalloc(&x, 64 * sizeof(float));
  cudaMalloc(&part, blocks * sizeof(float));
  cudaMemset(x, 0, 64 * sizeof(float));
  add<<<4, 64>>>(x, part);
}
"""
TEMPLATE = """
template <int SIZE> __global__ void product(float* c, float* a, float* b, int wide, int other) {
  __shared__ float A[SIZE];
  A[threadIdx.x + 1] = a[threadIdx.x];
  __syncthreads();
  c[threadIdx.x] = A[threadIdx.x];
}
int main() {
  float* x;
  cudaMalloc(&x, 64 * sizeof(float));
  cudaMemset(x, 0, 64 * sizeof(float));
  product<16><<<1, 16>>>(x, x, x, 1, 1);
}
"""


def _findings(folder: Path, text: str) -> list[Finding]:
    source = folder / "program.cu"
    source.write_text(text)
    requests = collect([str(source)], CheckOptions(), folder).requests
    return [event for request in requests for event in check_kernel(request) if isinstance(event, Finding)]


def test_a_probe_without_a_long_enough_length_ends_without_an_internal_error(tmp_path: Path) -> None:
    found = _findings(tmp_path, SCATTERED)
    # Element 64 is outside of the array, and nothing writes element 0.
    errors = {(one.rule, one.place.range.start.line) for one in found if one.severity is Severity.ERROR}
    assert errors == {("memory/out-of-bounds", 3), ("memory/uninitialized-read", 5)}
    assert "engine/internal-error" not in {one.rule for one in found}


def test_sizes_that_cannot_be_launched_are_not_errors_of_a_configuration(tmp_path: Path) -> None:
    found = _findings(tmp_path, IMPOSSIBLE)
    assert [one for one in found if one.severity is Severity.ERROR] == []
    assert [one.message for one in found if one.rule == "engine/not-executed"]


def test_a_message_has_the_name_of_a_shared_array_of_a_template(tmp_path: Path) -> None:
    errors = [one for one in _findings(tmp_path, TEMPLATE) if one.severity is Severity.ERROR]
    assert "memory/out-of-bounds" in {one.rule for one in errors}
    assert {one.data["buffer"] for one in errors if one.rule == "memory/out-of-bounds"} == {"A"}
