"""The original's kernel author guide: its commands have the documented results, unchanged.

The files are the guide's examples. The second half plants bugs in them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.cli.main import main as gpuemu_lsp

pytestmark = pytest.mark.quality

MATH = """\
// kernel_math.h -- Pure computation, no __global__ or threadIdx
inline float gelu_forward(float x) {
    // GELU(x) = 0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))
    const float c = 0.7978845608f;  // sqrt(2/pi)
    const float k = 0.044715f;
    float inner = c * (x + k * x * x * x);
    return 0.5f * x * (1.0f + tanhf(inner));
}
"""
KERNEL = """\
// kernel.cu
#include "kernel_math.h"

__global__ void gelu_kernel(const float* input, float* output, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n) {
        output[idx] = gelu_forward(input[idx]);
    }
}
"""
REFERENCE = """\
# scripts/ref_my_gelu.py
import numpy as np

def reference(inputs: dict, **kwargs) -> np.ndarray:
    x = inputs["x"]
    c = np.sqrt(2.0 / np.pi)
    k = 0.044715
    inner = c * (x + k * x ** 3)
    return 0.5 * x * (1.0 + np.tanh(inner))
"""
PLAIN = """\
[[kernels]]
name = "fused_gelu"
source = "kernels/gelu_kernel.cu"
reference = "scripts/ref_my_gelu.py"
"""
FULL = (
    PLAIN
    + """\

[kernels.tolerances]
float32 = 1e-5
float16 = 1e-3

[kernels.invariants]
no_nan = true
no_inf = true
non_negative = false
shape_preserved = true

[kernels.artifact_checks]
max_registers = 32
max_spills = 0
max_local_memory = 0
required_patterns = ["gelu_forward"]
forbidden_patterns = ["__syncthreads"]
"""
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a function that writes the guide's files, with changes."""

    def write(toml: str = FULL, kernel: str = KERNEL, math: str = MATH, reference: str = REFERENCE) -> Path:
        files = {
            "gpuemu.toml": toml,
            "kernels/gelu_kernel.cu": kernel,
            "kernels/kernel_math.h": math,
            "scripts/ref_my_gelu.py": reference,
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    return write


@pytest.mark.parametrize("toml", [PLAIN, FULL], ids=["plain", "full"])
def test_validate(project, capsys, toml):
    project(toml)
    assert gpuemu(["test", "--quick", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [kernel["status"] for kernel in document["kernels"]] == ["passed"]
    assert document["kernels"][0]["cases"] == {"run": 8, "passed": 8, "assumed": 0}
    assert {finding["severity"] for finding in document["findings"]} <= {"hint"}


def test_fuzz(project, capsys):
    project()
    assert gpuemu(["fuzz", "--op", "fused_gelu", "--iterations", "20"]) == 0
    assert "20 of 20 cases" in capsys.readouterr().out


def test_artifact_report(project, capsys):
    project()
    assert gpuemu(["lint", "--kernel", "fused_gelu"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.strip().split("\n")]
    assert lines[0].startswith("Kernel: fused_gelu")
    registers = int(lines[1].split()[1])
    assert 1 <= registers <= 32
    assert lines[1:] == [
        f"Registers: {registers} / 32 (max) OK",
        "Spills: 0 / 0 (max) OK",
        "Local memory: 0 / 0 (max) OK",
        "Required: gelu_forward FOUND",
        "Forbidden: __syncthreads NOT FOUND (good)",
        "Result: PASS",
    ]


def test_artifact_report_of_a_ptx_file(project, capsys):
    from gpuemu_lsp.engine.compile.compiler import compile_source
    from gpuemu_lsp.engine.compile.model import CompileRequest
    from gpuemu_lsp.engine.source import read

    root = project()
    path = root / "kernels" / "gelu_kernel.cu"
    source = read(path.as_posix(), KERNEL)
    request = CompileRequest(path.as_posix(), source.device_view, headers=source.headers, expressions=("gelu_kernel",))
    artifact = compile_source(request).artifact
    assert artifact is not None
    (root / "gelu.ptx").write_text(artifact.ptx)
    assert gpuemu(["lint", "--kernel", "fused_gelu", "--ptx", "gelu.ptx"]) == 0
    text = capsys.readouterr().out
    assert "/ 32 (max) OK" in text
    assert "Result: PASS" in text


MISTAKES = {
    "dropped factor": {"math": MATH.replace("0.5f * x", "x")},
    "wrong constant": {"math": MATH.replace("0.044715f", "0.04715f")},
    "wrong power": {"math": MATH.replace("k * x * x * x", "k * x * x")},
    "erf for tanh": {"math": MATH.replace("tanhf", "erff")},
    "one too many": {"kernel": KERNEL.replace("idx < n", "idx <= n")},
}
HIDDEN = {
    "one too few": KERNEL.replace("idx < n", "idx < n - 1"),
    "only one block": KERNEL.replace("blockIdx.x * blockDim.x + ", ""),
}
SIZES = """
[kernels.dims]
n = { min = 1, max = 4096 }
[kernels.args]
input = { in = ["n"] }
output = { out = ["n"] }
n = "n"
[kernels.launch]
grid = "ceil_div(n, 256)"
block = 256
"""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bug_is_found_and_stored(project, capsys, name):
    project(PLAIN, **MISTAKES[name])
    assert gpuemu_lsp(["--check"]) == 1
    text = capsys.readouterr().out
    assert "fused_gelu" in text
    case = text.partition("gpuemu reproduce ")[2].split()[0]
    assert gpuemu(["reproduce", case]) == 1
    assert "still fails" in capsys.readouterr().out
    project(PLAIN)
    assert gpuemu(["reproduce", case]) == 0
    assert "fixed" in capsys.readouterr().out


@pytest.mark.parametrize("name", HIDDEN)
def test_a_bug_that_hides_the_sizes_is_never_clean(project, capsys, name):
    """Without sizes in gpuemu.toml, the kernel cannot be distinguished from one with shorter arrays."""
    project(PLAIN, kernel=HIDDEN[name])
    assert gpuemu_lsp(["--check"]) in (1, 2)
    project(PLAIN + SIZES, kernel=HIDDEN[name])
    assert gpuemu_lsp(["--check", "--format", "json"]) == 1
    text = capsys.readouterr().out
    assert "numeric/unwritten-output" in text


def test_minimise_and_store(project, capsys):
    project(
        PLAIN, kernel=KERNEL.replace("gelu_forward(input[idx])", "gelu_forward(input[idx]) * (idx == 7 ? 2.0f : 1.0f)")
    )
    assert gpuemu(["test", "--quick"]) == 1
    capsys.readouterr()
    gpuemu(["failures", "--format", "json"])
    stored = json.loads(capsys.readouterr().out)["failures"]
    largest = max(stored, key=lambda failure: failure["dims"]["n"])
    assert largest["dims"]["n"] > 8
    assert gpuemu(["minimize", largest["case"], "--format", "json"]) == 1
    (smallest,) = json.loads(capsys.readouterr().out)["minimized"]
    assert smallest["dims"] == {"n": 8}
    assert smallest["inputs"][0]["nonzero"] == 1
    assert smallest["minimized"] not in {failure["case"] for failure in stored}
    assert gpuemu(["reproduce", smallest["minimized"]]) == 1
    assert "still fails" in capsys.readouterr().out
    project(PLAIN)
    assert gpuemu(["reproduce", smallest["minimized"]]) == 0


FORBIDDEN = {
    "barrier": (
        KERNEL.replace("    if (idx", "    __syncthreads();\n    if (idx"),
        "Forbidden: __syncthreads FOUND (line 6)",
    ),
    "other function": (KERNEL.replace("gelu_forward(input[idx])", "input[idx]"), "Required: gelu_forward NOT FOUND"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_violation_is_reported_and_fails_in_every_format(project, capsys, name):
    kernel, line = FORBIDDEN[name]
    project(kernel=kernel)
    assert gpuemu(["lint", "--kernel", "fused_gelu"]) == 1
    text = capsys.readouterr().out
    assert line in text
    assert "Result: FAIL" in text
    assert gpuemu(["lint", "--kernel", "fused_gelu", "--format", "json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)["kernels"]
    assert report["result"] == "FAIL"
    assert report["findings"]


def test_printf_can_be_forbidden(project, capsys):
    toml = FULL.replace('["__syncthreads"]', '["printf", "assert", "div.full"]')
    project(toml, kernel=KERNEL.replace("        output", '        if (n < 0) printf("x");\n        output'))
    assert gpuemu_lsp(["--check", "--format", "json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    errors = [finding for finding in findings if finding["severity"] == "error"]
    assert [(error["rule"], error["range"]["start"]["line"]) for error in errors] == [("artifact/forbidden-pattern", 6)]
