"""Integer inputs of which the program shows no values, or all bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.findings import collect as keep
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

PROGRAM = """
#include <cuda_runtime.h>
#include <stdio.h>
__global__ void k(const int* in, const int* other, int* count, const float* x, float* out, int n) {
  __shared__ int total, stored[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  BODY
}
int main(int argc, char** argv) {
  const int n = 1000;
  int host[n], *in, *other, *count;
  float values[n], *x, *out;
  FILE* file = fopen(argv[1], "rb");
  fread(host, sizeof(int), n, file);
  fread(values, sizeof(float), n, file);
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&other, n * sizeof(int));
  cudaMalloc(&count, 8 * sizeof(int));
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemset(count, 0, 8 * sizeof(int));
  cudaMemset(out, 0, n * sizeof(float));
  cudaMemcpy(in, host, n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(other, host, n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(x, values, n * sizeof(float), cudaMemcpyHostToDevice);
  k<<<8, 128>>>(in, other, count, x, out, n);
}
"""
KERNEL = """#include <cuda_runtime.h>
#include <stdio.h>
__global__ void k(const int* in, const float* x, int* out, int n) {
  __shared__ int total, s[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  BODY
}
"""
LAUNCHES = {
    "library": "void run(const int* in, const float* x, int* out, int n) { k<<<(n + 127) / 128, 128>>>(in, x, out, n); }",
    "program": """int main(int argc, char** argv) {
  const int n = 1000;
  int host[n], *in, *out;
  float values[n], *x;
  FILE* file = fopen(argv[1], "rb");
  fread(host, sizeof(int), n, file);
  fread(values, sizeof(float), n, file);
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(int));
  cudaMemcpy(in, host, n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(x, values, n * sizeof(float), cudaMemcpyHostToDevice);
  k<<<(n + 127) / 128, 128>>>(in, x, out, n);
}""",
}
SUM = "if (i < n) atomicAdd(&s[in[i] & 127], 1); __syncthreads(); if (i < n) out[i] = s[t] + (int)x[i];"
WHOLE = "if (i > 0 && i < n) out[i] = (int)x[i] + in[i];"
FILLED = PROGRAM.replace("cudaMemcpy(in, host, n * sizeof(int), cudaMemcpyHostToDevice)", "cudaMemset(in, 1, 4 * n)")
COUNTED = "if (i < n && in[i] > 0) atomicAdd(&total, 1); __syncthreads(); if (t == 0) count[blockIdx.x] = total;"
BOTH = "if (i < n && in[i] == 0x01010101) total += 1; __syncthreads(); if (t == 0) count[blockIdx.x] = total;"


def severities(tmp_path: Path, text: str) -> dict[str, set[Severity]]:
    """Return the severities of what is found in a program, by rule."""
    (tmp_path / ".git").mkdir(exist_ok=True)
    source = tmp_path / "program.cu"
    source.write_text(text)
    (request,) = collect([str(source)], CheckOptions(cases=8), tmp_path).requests
    findings: list[Finding] = []
    for one in check_kernel(request):
        if isinstance(one, Finding) and one.rule.startswith(("memory/", "sync/", "engine/")):
            keep(findings, one)
    found: dict[str, set[Severity]] = {}
    for finding in findings:
        found.setdefault(finding.rule, set()).add(finding.severity)
    return found


@pytest.mark.parametrize(
    ("text", "body", "rule", "severity"),
    [
        # The first access is made in any case: one thread that takes the branch is enough.
        (PROGRAM, f"if (t == 0) total = 0;\n  {COUNTED}", "memory/shared-race", Severity.ERROR),
        # Of two threads that take the branch the program need not have any.
        (PROGRAM, f"if (t == 0) total = 0; __syncthreads(); {BOTH}", "memory/shared-race", Severity.INFORMATION),
        (PROGRAM, "if (i < n && in[i] == 2) count[0] = i;", "memory/global-race", Severity.INFORMATION),
        # The values of the whole buffer are known.
        (FILLED, f"if (t == 0) total = 0; __syncthreads();\n  {BOTH}", "memory/shared-race", Severity.ERROR),
        # One input may say where another one is valid.
        (PROGRAM, "if (in[i % n] > 1) out[i] = x[i];", "memory/out-of-bounds", Severity.INFORMATION),
        (
            PROGRAM,
            "if (in[i % n]) stored[t] = i; __syncthreads(); if (i < n && other[i]) out[i] = stored[t];",
            "memory/uninitialized-read",
            Severity.INFORMATION,
        ),
    ],
    ids=["one branch", "sentinel", "two threads", "filled", "validity", "related inputs"],
)
def test_a_branch_that_depends_on_values(tmp_path: Path, text: str, body: str, rule: str, severity: Severity) -> None:
    found = severities(tmp_path, text.replace("BODY", body))
    assert found == ({rule: {severity}} if rule else {})


def test_values_that_are_indices_bounds_or_kinds(tmp_path: Path) -> None:
    """Values that reach an address, also through memory, the end of a loop, or a trap, stay zeros."""
    for body in (
        "if (i < n) out[i] = x[in[i]];",
        "stored[t] = i < n ? in[i] : 0; __syncthreads(); if (i < n) out[i] = x[stored[127 - t]];",
        "if (i + 1 < n) for (int j = in[i]; j < in[i + 1]; j++) out[i] += x[other[j]];",
        "if (i < n) { if (in[i] != 0) __trap(); out[i] = x[i]; }",
    ):
        assert severities(tmp_path, PROGRAM.replace("BODY", body)) == {}, body


@pytest.mark.parametrize("launch", LAUNCHES)
@pytest.mark.parametrize(
    ("body", "rule", "severity"),
    [
        # One thread that takes the branch is enough.
        (
            f"if (t == 0) total = 0; if (i < n && in[i] < 0) atomicAdd(&total, 1); __syncthreads();\n  {WHOLE}",
            "memory/shared-race",
            Severity.ERROR,
        ),
        (f"{WHOLE} if (i < n && in[i] > s[0]) s[0] = in[i];", "memory/shared-race", Severity.ERROR),
        # The constant that the kernel compares with is among the values.
        (
            f"if (t == 0) total = 0; if (i < n && in[i] == 1000) atomicAdd(&total, 1); __syncthreads();\n  {WHOLE}",
            "memory/shared-race",
            Severity.ERROR,
        ),
        # Any index into shared memory is one of what another thread writes.
        (f"s[t] = 0;\n  {SUM}", "memory/shared-race", Severity.ERROR),
        (f"s[t] = 0; __syncthreads();\n  {SUM}", "", Severity.HINT),
        ("s[t] = i < n ? in[i] : 0;\n  if (i < n) out[i] = s[(int)x[i] & 127];", "memory/shared-race", Severity.ERROR),
        # The program may have one such value, or one for all threads of a block.
        (f"{WHOLE}\n  if (i < n && in[i] > 0) out[0] = -i;", "memory/global-race", Severity.INFORMATION),
        (f"{WHOLE}\n  if (i < n && in[i] > 1) __syncthreads();", "sync/barrier-divergence", Severity.INFORMATION),
        # Values of the kinds that the kernel knows.
        (
            "if (i < n && in[i] == 0) s[t] = (int)x[i]; else if (i < n && in[i] == 1) s[t] = 1;\n"
            "  if (i < n) out[i] = s[t];",
            "memory/uninitialized-read",
            Severity.INFORMATION,
        ),
        # No value decides it, or one that may be any.
        (f"{WHOLE}\n  if (i < n) __syncthreads();", "sync/barrier-divergence", Severity.ERROR),
        (f"if (t < 64) s[t] = t; __syncthreads();\n  {WHOLE} if (i < n) out[i] += s[t];", "memory/uninitialized-read",
         Severity.ERROR),
        (f"{WHOLE}\n  if (i < n && x[i] > 0.5f) out[0] = -i;", "memory/global-race", Severity.ERROR),
    ],
    ids=["one branch", "one access of a line", "constant", "index", "index and barrier", "float index", "two threads", "barrier", "kinds",
         "any barrier", "any read", "float"],
)  # fmt: skip
def test_evidence_has_one_severity_whatever_shows_the_launch(
    tmp_path: Path, body: str, rule: str, severity: Severity, launch: str
) -> None:
    found = severities(tmp_path, KERNEL.replace("BODY", body) + LAUNCHES[launch])
    assert found.get(rule, set()) == ({severity} if rule else set())
    assert Severity.ERROR not in set().union(*found.values()) or severity is Severity.ERROR


@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_flag_that_one_element_may_have(tmp_path: Path, launch: str) -> None:
    text = KERNEL.replace("BODY", f"{WHOLE}\n  if (i < n && in[i]) out[0] = -i;") + LAUNCHES[launch]
    text = text.replace("const int* in", "const bool* in").replace(
        "int host[n], *in, *out", "bool host[n], *in; int *out"
    )
    text = text.replace("host, sizeof(int)", "host, sizeof(bool)").replace(
        "&in, n * sizeof(int)", "&in, n * sizeof(bool)"
    )
    text = text.replace("in, host, n * sizeof(int)", "in, host, n * sizeof(bool)")
    assert severities(tmp_path, text) == {"memory/global-race": {Severity.INFORMATION}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Elements of `out` depend on values, so that its length is not known.
        ("if (i < n && in[i] != in[i - 1]) out[in[i]] = i;", {"memory/out-of-bounds": {Severity.ERROR}}),
        # Neighbours are compared to find the first of equal values, which are in order then.
        ("if (i < n && (i == 0 || in[i] != in[i - 1])) out[in[i]] = i;", {}),
        ("if (i < n && (i == 0 || in[i] != in[0])) out[in[i]] = i;", {"memory/global-race": {Severity.INFORMATION}}),
        (
            "if (i < n) out[in[i] / 2 + 1] = i;\n  if (i < n) out[0] = -i;",
            {"memory/global-race": {Severity.ERROR, Severity.INFORMATION}},
        ),
        ("if (i < n) out[in[i]] = i;", {"memory/global-race": {Severity.INFORMATION}}),
    ],
    ids=["before the begin", "first of equal", "differs from one", "race", "indices that differ"],
)
def test_buffers_of_unknown_length_have_a_begin_and_races(
    tmp_path: Path, body: str, expected: dict[str, set[Severity]]
) -> None:
    text = KERNEL.replace("BODY", body).replace("const float* x, ", "")
    launch = LAUNCHES["library"].replace("const float* x, ", "").replace("in, x, out", "in, out")
    assert severities(tmp_path, text + launch) == expected


SCATTER = """
__global__ void scatter(const int* rank, const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    CLEAR
    UPDATE
    __syncthreads();
    y[i] = s[t];
}
void run(const int* rank, const float* x, float* y, int n) { scatter<<<n / 64, 64>>>(rank, x, y); }
"""


@pytest.mark.parametrize(
    ("clear", "update", "errors"),
    [
        ("", "s[rank[i]] = x[i];", set()),  # the ranks may be a permutation
        ("s[t] = 0; __syncthreads();", "s[rank[i]] += x[i];", {"memory/shared-race"}),
    ],
    ids=["store", "update"],
)
def test_indices_of_a_scatter_may_differ(tmp_path: Path, clear: str, update: str, errors: set[str]) -> None:
    found = severities(tmp_path, SCATTER.replace("CLEAR", clear).replace("UPDATE", update))
    assert {rule for rule, all_of_it in found.items() if Severity.ERROR in all_of_it} == errors


WRITES = """
#include <torch/extension.h>
__global__ void k(const int* order, const int* lengths, const float* x, float* out, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  STORE
}
torch::Tensor run(torch::Tensor x, torch::Tensor order, torch::Tensor lengths) {
  TORCH_CHECK(x.dim() == 2 && order.dim() == 1 && lengths.dim() == 1);
  TORCH_CHECK(order.size(0) == x.size(0) && lengths.size(0) == x.size(0));
  auto out = torch::empty_like(x);
  int rows = x.size(0), cols = x.size(1);
  k<<<(rows * cols + 127) / 128, 128>>>(order.data_ptr<int>(), lengths.data_ptr<int>(), x.data_ptr<float>(),
                                        out.data_ptr<float>(), rows, cols);
  return out;
}
"""


@pytest.mark.parametrize(
    ("store", "severity"),
    [
        ("out[order[i / cols] * cols + i % cols] = x[i];", Severity.INFORMATION),
        ("if (i % cols < lengths[i / cols]) out[i] = x[i];", Severity.INFORMATION),
        ("if (i % cols + 1 < cols) out[i] = x[i] * lengths[i / cols];", Severity.ERROR),
    ],
)
def test_an_output_that_some_values_leave_unwritten_is_information(
    tmp_path: Path, store: str, severity: Severity
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(WRITES.replace("STORE", store))
    (request,) = collect([str(source)], CheckOptions(), tmp_path).requests
    found = [one for one in check_kernel(request) if isinstance(one, Finding)]
    assert {one.severity for one in found if one.rule == "numeric/unwritten-output"} == {severity}
