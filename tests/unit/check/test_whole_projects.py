"""Kernels spread over files as in real projects, with no configuration: headers, includers, folders, device runtime."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.deadline import deadline
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

TILE = """\
template <typename T, int TILE>
__global__ void scale(const T* x, T* y, int n) {
    int i = blockIdx.x * TILE + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
"""
RUNNER = """\
#include <cstdio>
#define FACTOR 2.0f
#include "kernels/scale.cuh"

template <typename T>
void run(const T* x, T* y, int n) {
    const int tile = 128;
    scale<T, tile><<<(n + tile - 1) / tile, tile>>>(x, y, n);
}

int main() {
    run<float>(nullptr, nullptr, 7);
}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)

    def make(files: dict[str, str]) -> Path:
        (tmp_path / ".git").mkdir()
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


def check(path: Path) -> tuple[KernelReport, list[Finding]]:
    targets = collect([str(path)], CheckOptions(), path.parent)
    assert not targets.findings, targets.findings
    (request,) = targets.requests
    events = list(check_kernel(request))
    assert isinstance(events[-1], KernelReport)
    return events[-1], [event for event in events if isinstance(event, Finding)]


def test_a_template_in_a_header_is_run_as_the_file_that_includes_it_launches_it(project):
    root = project({"src/runner.cu": RUNNER, "src/kernels/scale.cuh": TILE})
    report, findings = check(root / "src/kernels/scale.cuh")
    assert (report.status, report.compiled) == ("unreferenced", True), findings
    assert report.cases.run == report.cases.passed > 0
    (hint,) = findings
    assert "launch of runner.cu line 8" in hint.message


def test_events_in_such_a_header_are_reported_in_the_header(project):
    root = project({"src/runner.cu": RUNNER, "src/kernels/scale.cuh": TILE.replace("i < n", "i <= n")})
    report, findings = check(root / "src/kernels/scale.cuh")
    assert report.status == "failed"
    (error, *_) = [finding for finding in findings if finding.rule == "memory/out-of-bounds"]
    assert Path(error.place.path).name == "scale.cuh"
    assert error.place.range.start.line == 3


FRAGMENT = """\
__global__ void scale(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
extern "C" void run(const real* x, real* y, int n) { scale<<<(n + 127) / 128, 128>>>(x, y, n); }
"""
AROUND = '#define FACTOR 2.0f\ntypedef float real;\n#include "scale.cuh"\n'


def test_a_header_that_launches_its_own_kernels_is_compiled_with_the_file_that_includes_it(project):
    root = project({"scale.cuh": FRAGMENT, "main.cu": AROUND})
    report, findings = check(root / "scale.cuh")
    assert (report.status, report.compiled) == ("unreferenced", True), findings


def test_a_source_that_others_include_is_compiled_with_them(project):
    """Through another source, too: `main.cu` includes `work.cu`, and that the kernel."""
    around = AROUND.replace("scale.cuh", "work.cu")
    root = project({"scale.cu": FRAGMENT, "work.cu": '#include "scale.cu"\n', "main.cu": around})
    report, findings = check(root / "scale.cu")
    assert (report.status, report.compiled) == ("unreferenced", True), findings


def test_errors_in_such_a_source_are_those_of_its_inclusion(project):
    around = AROUND.replace("scale.cuh", "work.cu")
    broken = FRAGMENT.replace("x[i];", "x[j];")
    root = project({"scale.cu": broken, "work.cu": '#include "scale.cu"\n', "main.cu": around})
    _, findings = check(root / "scale.cu")
    (error,) = findings
    assert (Path(error.place.path).name, error.place.range.start.line) == ("scale.cu", 2)


def test_errors_in_such_a_header_are_those_of_its_inclusion(project):
    root = project({"scale.cuh": FRAGMENT.replace("x[i];", "x[j];"), "main.cu": AROUND})
    report, findings = check(root / "scale.cuh")
    assert not report.compiled
    (error,) = findings
    assert 'identifier "j" is undefined' in error.message
    assert (Path(error.place.path).name, error.place.range.start.line) == ("scale.cuh", 2)


def test_a_kernel_in_a_file_with_errors_is_not_reported_as_excluded(project):
    root = project({"scale.cu": "__gobal__ float f;\n" + AROUND.splitlines()[0] + "\n" + FRAGMENT})
    report, findings = check(root / "scale.cu")
    assert not report.compiled
    assert {finding.rule for finding in findings} <= {"compile/error", "compile/warning"}, findings


def test_a_header_that_nothing_includes_says_what_is_missing(project):
    root = project({"src/kernels/scale.cuh": TILE})
    report, findings = check(root / "src/kernels/scale.cuh")
    assert report.status == "not-executed"
    assert any("is a template, and no launch in the file" in finding.message for finding in findings)


def test_a_header_two_folders_up_is_found_in_the_projects_usual_folder(project):
    kernel = '#include "vec.h"\n__global__ void k(const float* x, float* y, int n) {\n'
    kernel += "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = twice(x[i]);\n}\n"
    root = project(
        {
            "samples/one/k.cu": kernel,
            "common/vec.h": '#include "more.h"\n__device__ float twice(float v) { return TWO * v; }\n',
            "include/more.h": "#define TWO 2.0f\n",
        }
    )
    report, findings = check(root / "samples/one/k.cu")
    assert report.status == "unreferenced", findings


def test_no_folder_is_searched_above_the_top_of_the_project(project, tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "vec.h").write_text("#define TWO 2.0f\n")
    inner = tmp_path / "inner"
    (inner / ".git").mkdir(parents=True)
    (inner / "k.cu").write_text('#include "vec.h"\n__global__ void k(float* y, int n) { if (n > 0) y[0] = TWO; }\n')
    report, findings = check(inner / "k.cu")
    assert not report.compiled
    assert any('vec.h" was not found, and `TWO` is unknown' in finding.message for finding in findings)


def test_a_header_above_the_folder_is_found_though_another_header_is_rewritten(project):
    source = '#include "../inc/deep.h"\n__global__ void k(float* y, int n) {\n'
    source += (
        "    if (blockIdx.x * blockDim.x + threadIdx.x < n) y[blockIdx.x * blockDim.x + threadIdx.x] = one();\n}\n"
    )
    root = project(
        {"src/k.cu": source, "inc/deep.h": "#include <vector>\n__device__ float one() { return 1.0f; }\nvoid host();\n"}
    )
    report, findings = check(root / "src/k.cu")
    assert report.compiled, findings


def test_a_kernel_that_launches_kernels_compiles_and_does_not_pass(project):
    source = """\
__global__ void child(float* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = 1.0f;
}
__global__ void parent(float* y, int n) {
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (threadIdx.x == 0) child<<<1, 32, 0, stream>>>(y, n);
    cudaStreamDestroy(stream);
}
"""
    root = project({"parent.cu": source})
    requests = collect([str(root / "parent.cu")], CheckOptions(), root).requests
    reports = {
        event.name: event for request in requests for event in check_kernel(request) if isinstance(event, KernelReport)
    }
    assert reports["parent"].compiled
    assert reports["parent"].status == "not-executed"
    assert reports["child"].compiled


def test_an_angled_include_is_found_next_to_the_source(project):
    root = project({"csrc/k.cu": "#include <k.cuh>\n__global__ void k(float* y, int n) { if (n > 0) y[0] = TWO; }\n"})
    (root / "csrc" / "k.cuh").write_text("#pragma once\n#define TWO 2.0f\n")
    report, findings = check(root / "csrc/k.cu")
    assert report.compiled, findings


def test_a_named_pipe_next_to_a_kernel_is_not_opened(project):
    root = project({"scale.cu": FRAGMENT, "half.cuh": "__device__ float half_of(float x) { return 0.5f * x; }\n"})
    os.mkfifo(root / "pipe.cu")
    os.mkfifo(root / "scale.cuh")
    (root / "scale.cu").write_text(AROUND + '#include "half.cuh"\n__global__ void k(float* y) { *y = half_of(1); }\n')
    with deadline(30):
        check(root / "scale.cu")


SMOOTH = """\
__global__ void smooth(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i + 1];
}
void run(const float* x, float* y, int n) { smooth<<<(n + 127) / 128, 128>>>(x, y, n); }
"""
CALLER = """\
void run(const float* x, float* y, int n);
int main() {
    float *x, *y;
    cudaMalloc(&x, 1000 * sizeof(float));
    cudaMalloc(&y, 1000 * sizeof(float));
    run(x, y, 1000);
}
"""


@pytest.mark.parametrize(
    ("sources", "status"),
    [
        ({"app/main.cu": CALLER, "src/smooth.cu": SMOOTH}, "failed"),
        ({"main.cu": CALLER, "old/smooth.cu": SMOOTH, "src/smooth.cu": SMOOTH}, "failed"),
        # The neighbour's function has the same name: whatever calls the other one is not known.
        ({"two/main.cu": CALLER, "two/kernels/other.cu": SMOOTH, "src/smooth.cu": SMOOTH}, "unreferenced"),
    ],
    ids=["an application", "versions", "neighbours"],
)
def test_a_caller_in_another_folder_calls_the_nearest_function(project, sources, status):
    report, findings = check(project(sources) / "src/smooth.cu")
    assert report.status == status, findings
