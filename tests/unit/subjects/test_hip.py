"""HIP, compiled through our headers: verdicts as in CUDA, and what depends on wavefronts of 64 lanes by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.check_project import run

from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.languages import CUDA, HIP, language_of_path, language_of_text
from gpuemu_lsp.engine.subjects.request import CheckOptions

INCLUDE = "#include <hip/hip_runtime.h>\n"
HOST = """
#include <cstdio>
__global__ void scale(const float* x, float* y, int n) {
    int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    if (i LESS n) y[i] = 2.0f * x[i];
}
int main() {
    float *x, *y;
    hipMalloc(&x, 1000 * sizeof(float));
    hipMalloc(&y, 1000 * sizeof(float));
    hipMemset(x, 0, 1000 * sizeof(float));
    hipLaunchKernelGGL(scale, dim3(4), dim3(256), 0, 0, x, y, 1000);
    hipDeviceProp_t properties;
    hipGetDeviceProperties(&properties, 0);
    printf("%d\\n", properties.warpSize);
}
"""


def check(path: Path, text: str) -> tuple[str, list[Finding]]:
    """Return the status of the only kernel of a file, and its findings but for hints."""
    path.write_text(text)
    (request,) = collect([path.name], CheckOptions(cases=3), path.parent).requests
    report, findings, _ = run(request)
    return report.status, [finding for finding in findings if finding.severity is not Severity.HINT]


def reading(line: str, types: str = "int") -> str:
    """Return a kernel with a line that computes ``v`` of an element."""
    return f"""{INCLUDE}__global__ void k(const {types}* x, {types}* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {types} v = x[i];
    {line}
    y[i] = v;
}}
"""


@pytest.mark.parametrize("name", ["scale.hip", "scale.cu"])
def test_a_launch_in_host_code_is_read_and_an_overrun_found(tmp_path: Path, name: str) -> None:
    status, findings = check(tmp_path / name, INCLUDE + HOST.replace("LESS", "<="))
    assert status == "failed"
    assert [(one.rule, one.place.range.start.line) for one in findings] == [("memory/out-of-bounds", 5)]
    assert check(tmp_path / name, INCLUDE + HOST.replace("LESS", "<")) == ("unreferenced", [])


WAVEFRONT = {
    "warpSize": "v += i % warpSize;",
    "__shfl_down": "v += __shfl_down(v, 1);",
    "__shfl": "v = __shfl(v, 0);",
    "__shfl_xor": "v += __shfl_xor(v, 32);",
    "__ballot": "v = __popcll(__ballot(v > 0));",
    "__any": "v = __any(v > 0);",
    "__activemask": "v = __popcll(__activemask());",
    "__lane_id": "v = __lane_id();",
    "__builtin_amdgcn_readfirstlane": "v = __builtin_amdgcn_readfirstlane(v);",
    "__builtin_amdgcn_perm": "v = __builtin_amdgcn_perm(v, v, 1);",
}


@pytest.mark.parametrize(("name", "line"), WAVEFRONT.items(), ids=WAVEFRONT)
def test_what_depends_on_wavefronts_is_refused_by_name_on_its_line(tmp_path: Path, name: str, line: str) -> None:
    status, findings = check(tmp_path / "k.hip", reading(line))
    assert status == "not-executed"
    assert [(one.rule, one.place.range.start.line) for one in findings] == [("engine/not-executed", 5)]
    assert f"`{name}`" in findings[0].message


@pytest.mark.parametrize("line", ["v += __shfl_down(v, 1, 16);", "v += __shfl_xor(v, 16);", "if (n < 0) v = __all(v);"])
def test_what_means_the_same_in_warps_of_32_lanes_runs(tmp_path: Path, line: str) -> None:
    assert check(tmp_path / "k.hip", reading(line)) == ("unreferenced", [])


def test_an_instruction_that_our_headers_lack_is_a_reason_and_not_an_error(tmp_path: Path) -> None:
    status, findings = check(tmp_path / "k.hip", reading("v = __builtin_amdgcn_frexp_expf(v);", "float"))
    assert status == "not-executed"
    assert [(one.rule, one.place.range.start.line) for one in findings] == [("engine/not-executed", 5)]
    assert "`__builtin_amdgcn_frexp_expf` is of AMD's GPUs" in findings[0].message


def test_vectors_have_operators_and_attributes_of_launches_are_taken(tmp_path: Path) -> None:
    text = """#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
__launch_bounds__(256, 8) __global__ void k(const float4* x, float4* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i] + x[i] * x[i];
}
"""
    assert check(tmp_path / "k.hip", text) == ("unreferenced", [])


def test_the_language_is_that_of_the_name_or_of_the_includes() -> None:
    assert language_of_path("/a/k.hip") is HIP
    cuda, hip = KernelSpec("k", "/a/k.cu", None), KernelSpec("k", "/a/k.hip", None)
    assert language_of_text(cuda, "__global__ void k() {}") is CUDA
    assert language_of_text(cuda, INCLUDE) is HIP
    assert language_of_text(hip, "") is HIP


LOCKSTEP = """#include <hip/hip_runtime.h>
__global__ void k(const float* x, float* y, int n) {
    __shared__ volatile float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (t < 32) part[t] += part[t + REACH];
    if (i < n) y[i] = t < 16 ? part[t + 16] : 0.0f;
}
"""


def test_a_race_in_a_wavefront_is_not_judged_and_one_between_wavefronts_is_an_error(tmp_path: Path) -> None:
    status, findings = check(tmp_path / "k.hip", LOCKSTEP.replace("REACH", "32"))
    assert (status, {one.rule for one in findings}) == ("not-executed", {"engine/not-executed"})
    assert "may rely on lockstep" in findings[0].message
    _, findings = check(tmp_path / "k.hip", LOCKSTEP.replace("    __syncthreads();\n", "").replace("REACH", "64"))
    assert {one.rule for one in findings} == {"engine/not-executed", "memory/shared-race"}
