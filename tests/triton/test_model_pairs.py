"""A PyTorch model and its CUDA version in one file, from the registration to the verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
from support.model_pairs import BIAS, MATMUL

from gpuemu_lsp.cli.main import main as gpuemu_lsp
from gpuemu_lsp.engine.jobs.registration import registration
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.wire import to_json


def checked(folder, text):
    """Register the only kernel of a module and check it; return the exit code and the findings."""
    (folder / "model.py").write_text(text)
    (request,) = collect([str(folder / "model.py")], CheckOptions(), folder).requests
    (made,) = registration({"request": to_json(request), "source": "model.py", "reference": "ref.py"})
    (folder / "gpuemu.toml").write_text(made["entry"])
    (folder / "ref.py").write_text(made["reference"])
    output = folder / "out.json"
    code = gpuemu_lsp(["--check", str(folder / "gpuemu.toml"), "--format", "json", "--output", str(output)])
    report = json.loads(output.read_text())
    assert [kernel["status"] for kernel in report["kernels"]] != ["not-executed"], report["findings"]
    return code, report["findings"]


@pytest.mark.parametrize("text", [BIAS, MATMUL], ids=["bias", "matmul"])
def test_a_correct_kernel_agrees_with_the_model(text, tmp_path):
    code, findings = checked(tmp_path, text)
    assert code == 0, findings


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        (BIAS, "fmaxf(a[idx], 0.0f) +", "fabsf(a[idx]) +"),
        (BIAS, "b[idx % cols]", "b[0]"),
        (MATMUL, "for (int k = 0; k < K; ++k)", "for (int k = 1; k < K; ++k)"),
    ],
)
def test_a_wrong_kernel_does_not(text, right, wrong, tmp_path):
    code, findings = checked(tmp_path, text.replace(right, wrong))
    errors = {finding["rule"] for finding in findings if finding["severity"] == "error"}
    assert code == 1 and errors == {"numeric/tolerance-exceeded"}
