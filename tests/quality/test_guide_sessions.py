"""Two sessions of the original's guides, command by command, with ``[[kernels]]`` in place of ``[[ops]]``.

A kernel author's session from an empty folder to shipping, and an integrator's upgrade of a library's kernel.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from test_guides import FULL, KERNEL, MATH, REFERENCE

from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.source import read

pytestmark = pytest.mark.quality


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command line in a new folder and returns its exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)

    def run(line: str) -> tuple[int, str]:
        program, *arguments = shlex.split(line)
        assert program == "gpuemu"
        code = gpuemu(arguments)
        return code, capsys.readouterr().out

    return run


def write(**files: str) -> None:
    for name, text in files.items():
        path = Path(
            {
                "toml": "gpuemu.toml",
                "kernel": "kernels/gelu_kernel.cu",
                "math": "kernels/kernel_math.h",
                "reference": "scripts/ref_my_gelu.py",
            }[name]
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def assemble() -> None:
    """Compile as ``nvcc --ptx`` does in the user's build."""
    path = Path("kernels/gelu_kernel.cu").absolute().as_posix()
    source = read(path, KERNEL)
    made = compile_source(
        CompileRequest(path, source.device_view, headers=source.headers, expressions=("gelu_kernel",))
    )
    assert made.artifact is not None
    Path("kernels/gelu_kernel.ptx").write_text(made.artifact.ptx)


def test_the_kernel_authors_session(shell):
    # 1. Write the math in kernel_math.h and its reference.  2. Register the kernel, with tolerances and checks.
    write(toml=FULL, kernel=KERNEL, math=MATH, reference=REFERENCE)

    # 3. Validate.
    code, text = shell("gpuemu test")
    assert code == 0
    assert "fused_gelu" in text and "32 of 32 cases" in text

    # 4. Fuzz to catch edge cases.
    code, text = shell("gpuemu fuzz --op fused_gelu --iterations 500")
    assert code == 0
    assert "500 of 500 cases" in text

    # 5. A bug in the math is found, and minimised to the smallest case.
    write(math=MATH.replace("0.5f * x", "x"))
    assert shell("gpuemu test")[0] == 1
    code, text = shell("gpuemu failures --format json")
    assert code == 0
    seed = json.loads(text)["failures"][0]["case"]
    code, text = shell(f"gpuemu minimize {seed}")
    assert code == 1
    assert "numeric/tolerance-exceeded" in text
    write(math=MATH)
    assert shell(f"gpuemu reproduce {seed}")[0] == 0
    assert shell("gpuemu test")[0] == 0
    assert shell("gpuemu failures") == (0, "No failing cases.\n")

    # 6. Inspect the artifact.
    assemble()
    code, text = shell("gpuemu lint --kernel fused_gelu --ptx kernels/gelu_kernel.ptx")
    assert code == 0
    assert "Result: PASS" in text

    # 7. Store a baseline before changes.
    code, text = shell("gpuemu baseline v1")
    assert code == 0
    assert "Stored the baseline 'v1' of 1 kernel." in text

    # 8. Modify the kernel, re-validate and diff: a harmless edit first, then one that costs accuracy and registers.
    write(math=MATH.replace("float inner", "const float inner"))
    assert shell("gpuemu test")[0] == 0
    code, text = shell("gpuemu diff --baseline v1 --fail-on-regression")
    assert (code, text) == (0, "Against the baseline 'v1': 1 unchanged.\n")
    write(math=MATH.replace("0.7978845608f", "0.79788f"))
    code, text = shell("gpuemu diff --baseline v1 --fail-on-regression")
    assert code == 1, text
    assert "max_rel_diff" in text and "(regression)" in text
    assert "kernels/kernel_math.h" in text and "f32:0.79788" in text

    # 9. Ship when all tests pass and no regressions are detected.
    write(math=MATH)
    assert shell("gpuemu ci --baseline v1")[0] == 0
    code, _ = shell("gpuemu report --format html --output report.html")
    assert code == 0
    assert Path("report.html").read_text().startswith("<!DOCTYPE html>")


ATTENTION = """\
[[kernels]]
name = "flash_attention"
source = "flash_attn/flash.cuh"
reference = "scripts/ref_flash_attention.py"
dtypes = ["float32", "float16"]

[kernels.dims]
batch = { min = 1, max = 2 }
seq = { min = 1, max = 96 }
heads = { min = 1, max = 3 }
dim = { min = 1, max = 64 }

[kernels.args]
q = { in = ["batch", "seq", "heads", "dim"], range = [-4.0, 4.0] }
k = { in = ["batch", "seq", "heads", "dim"], range = [-4.0, 4.0] }
v = { in = ["batch", "seq", "heads", "dim"], range = [-4.0, 4.0] }
o = { out = ["batch", "seq", "heads", "dim"] }
seq = "seq"
heads = "heads"
dim = "dim"

[kernels.launch]
grid = "batch * seq * heads"
block = 64

[kernels.tolerances]
float32 = 1e-4
float16 = 1e-2

[kernels.invariants]
shape_preserved = true
"""
LIBRARY = """\
#pragma once
#include <cuda_fp16.h>

// One block per query row; the softmax is taken on the fly.
template <typename T>
__global__ void flash_attention(const T* q, const T* k, const T* v, T* o, int seq, int heads, int dim) {
    const int row = blockIdx.x, head = row % heads, batch = row / (seq * heads), lane = threadIdx.x;
    const float scale = rsqrtf(static_cast<float>(dim));
    float top = -INFINITY, sum = 0.0f, acc = 0.0f;
    for (int j = 0; j < seq; ++j) {
        const int other = (batch * seq + j) * heads + head;
        float s = 0.0f;
        for (int d = 0; d < dim; ++d) s += static_cast<float>(q[row * dim + d]) * static_cast<float>(k[other * dim + d]);
        const float next = fmaxf(top, s * scale);
        const float alpha = expf(top - next), weight = expf(s * scale - next);
        sum = sum * alpha + weight;
        if (lane < dim) acc = acc * alpha + weight * static_cast<float>(v[other * dim + lane]);
        top = next;
    }
    if (lane < dim) o[row * dim + lane] = static_cast<T>(acc / sum);
}
"""
TIDIED = LIBRARY.replace("const int row = blockIdx.x,", "const int row = static_cast<int>(blockIdx.x),\n        ")
BROKEN = LIBRARY.replace("acc = acc * alpha + weight", "acc = acc + weight")
ATTENTION_REFERENCE = """\
import numpy as np


def reference(inputs: dict, **kwargs) -> np.ndarray:
    q, k, v = (np.transpose(inputs[name], (0, 2, 1, 3)) for name in ("q", "k", "v"))
    scores = np.matmul(q, np.transpose(k, (0, 1, 3, 2))) / np.sqrt(q.shape[-1])
    scores = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = scores / np.sum(scores, axis=-1, keepdims=True)
    return np.transpose(np.matmul(weights, v), (0, 2, 1, 3))
"""


def install(library: str) -> None:
    """Replace the library's header, as ``pip install flash-attn==...`` would."""
    Path("flash_attn").mkdir(exist_ok=True)
    Path("flash_attn/flash.cuh").write_text(library)


def test_the_integrators_upgrade(shell):
    for name, text in (
        ("gpuemu.toml", ATTENTION),
        ("scripts/ref_flash_attention.py", ATTENTION_REFERENCE),
    ):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    install(LIBRARY)

    # Validate, then set a baseline at the current library version.
    code, text = shell("gpuemu test")
    assert code == 0
    assert "64 of 64 cases" in text
    assert shell("gpuemu baseline v1.0")[0] == 0
    assert shell("gpuemu baseline flash-attn-2.3.0")[0] == 0

    # A version with a refactoring only: no regression, ship.
    install(TIDIED)
    assert shell("gpuemu test")[0] == 0
    assert shell("gpuemu diff --baseline v1.0 --fail-on-regression")[0] == 0

    # A version that dropped the rescaling: investigate.
    install(BROKEN)
    assert shell("gpuemu test")[0] == 1
    code, text = shell("gpuemu diff --baseline flash-attn-2.3.0 --fail-on-regression")
    assert code == 1
    assert "passed -> failed  (regression)" in text
    assert "flash.cuh:17" in text
    assert shell("gpuemu diff --baseline flash-attn-2.3.0")[0] == 0  # the regression is reported only

    # A tag without a stored baseline is an error.
    assert shell("gpuemu diff --baseline pre-upgrade --fail-on-regression")[0] == 2


def test_the_guides_continuous_integration(shell):
    """Its job starts a daemon first; none is needed, which is not an error."""
    write(toml=FULL, kernel=KERNEL, math=MATH, reference=REFERENCE)
    assemble()
    job = (
        "gpuemu daemon start",
        "gpuemu test",
        "gpuemu baseline main",
        "gpuemu lint --kernel fused_gelu --ptx kernels/gelu_kernel.ptx",
        "gpuemu diff --baseline main --fail-on-regression",
    )
    assert [shell(line)[0] for line in job] == [0] * len(job)
