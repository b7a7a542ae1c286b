"""Triton kernels registered in gpuemu.toml, checked by the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOFTMAX = """\
import numpy as np
import triton
import triton.language as tl


@triton.jit
def exponential(x, largest):
    return tl.exp(x - largest)


@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < cols
    value = tl.load(x + row * cols + i, mask=inside, other=OTHER)
    above = exponential(value, tl.max(value, axis=0))
    tl.store(y + row * cols + i, above / tl.sum(above, axis=0), mask=inside)


def reference(inputs):
    x = inputs["x"]
    above = np.exp(x - x.max(axis=-1, keepdims=True))
    return above / above.sum(axis=-1, keepdims=True)
"""
CONFIG = """\
[[kernels]]
name = "softmax"
source = "softmax.py"
reference = "softmax.py:reference"
[kernels.dims]
rows = { min = 1, max = 8 }
cols = { min = 1, max = 300 }
[kernels.args]
x = { in = ["rows", "cols"] }
y = { out = ["rows", "cols"] }
cols = "cols"
[kernels.constexprs]
BLOCK = "next_pow2(cols)"
[kernels.launch]
grid = ["rows"]
num_warps = [2, 4]
"""


def line_of(text, part):
    """Return the 1-based line of a text that contains `part`."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.fixture
def check(tmp_path):
    """Write a project and return the JSON of its check, with the exit code."""

    def run(files, *arguments, verb=("gpuemu_lsp", "--check")):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        command = [sys.executable, "-m", *verb, *(arguments or (".",)), "--format", "json"]
        environment = {**os.environ, "GPUEMU_CACHE_DIR": str(tmp_path / ".cache")}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1, 2), done.stderr
        result = json.loads(done.stdout)
        result["exit"] = done.returncode
        return result

    return run


def errors(result):
    return [
        (finding["rule"], finding["range"]["start"]["line"] + 1)
        for finding in result["findings"]
        if finding["severity"] == "error"
    ]


def test_a_correct_kernel_passes_in_every_case(check):
    result = check({"softmax.py": SOFTMAX.replace("OTHER", 'float("-inf")'), "gpuemu.toml": CONFIG})
    (kernel,) = result["kernels"]
    assert (kernel["status"], result["findings"], result["exit"]) == ("passed", [], 0)
    assert kernel["cases"]["run"] == kernel["cases"]["passed"] >= 8


def test_a_wrong_fill_of_the_masked_tail_is_found_on_the_store(check):
    text = SOFTMAX.replace("OTHER", "0.0")
    result = check({"softmax.py": text, "gpuemu.toml": CONFIG})
    assert errors(result) == [("numeric/tolerance-exceeded", line_of(text, "tl.store"))]
    (finding,) = result["findings"]
    assert finding["path"].endswith("softmax.py") and finding["case"] and finding["dims"]["cols"]
    assert result["exit"] == 1


OFFSETS = """\
import triton
import triton.language as tl


@triton.jit
def negate(x, y, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)ROW
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + column, mask=column < cols)
    tl.store(y + row * cols + column, -value, mask=column < cols)
"""
LARGE = """\
[[kernels]]
name = "negate"
source = "negate.py"
dims = { rows = { min = 1, max = 60000 }, cols = { min = 1, max = 60000 } }
args = { x = { in = ["rows", "cols"] }, y = { out = ["rows", "cols"] }, rows = "rows", cols = "cols" }
constexprs = { BLOCK = 64 }
launch = { grid = ["rows", "ceil_div(cols, 64)"] }
"""


@pytest.mark.parametrize(("row", "wrong"), [("", True), (".to(tl.int64)", False)])
def test_an_offset_beyond_32_bits_at_the_declared_sizes_is_an_error(check, row, wrong):
    text = OFFSETS.replace("ROW", row)
    result = check({"negate.py": text, "gpuemu.toml": LARGE})
    assert errors(result) == ([("memory/index-overflow", line_of(text, "value ="))] if wrong else [])


def test_a_load_without_mask_is_out_of_bounds_on_its_line(check):
    text = SOFTMAX.replace("mask=inside, other=OTHER", "")
    result = check({"softmax.py": text, "gpuemu.toml": CONFIG})
    assert ("memory/out-of-bounds", line_of(text, "value =")) in errors(result)


def test_an_error_of_the_compiler_is_on_its_line_with_the_call(check):
    text = SOFTMAX.replace("OTHER", "0.0").replace("tl.exp(x - largest)", "tl.exp(x - lagest)")
    result = check({"softmax.py": text, "gpuemu.toml": CONFIG})
    assert errors(result) == [("compile/error", line_of(text, "lagest"))]
    (finding,) = result["findings"]
    assert "lagest" in finding["message"]
    assert [one["range"]["start"]["line"] + 1 for one in finding["related"]] == [line_of(text, "above = exp")]


def test_an_error_of_the_module_is_on_its_line(check):
    text = SOFTMAX.replace("OTHER", "0.0") + "\nraise ValueError('no')\n"
    result = check({"softmax.py": text, "gpuemu.toml": CONFIG})
    assert errors(result) == [("compile/error", line_of(text, "raise"))]
    assert "ValueError: no" in result["findings"][0]["message"]


def test_a_package_that_is_not_installed_is_named(check):
    text = "import no_such_package\n" + SOFTMAX
    result = check({"softmax.py": text, "gpuemu.toml": CONFIG})
    assert errors(result) == [] and result["exit"] == 2
    (finding,) = result["findings"]
    assert finding["rule"] == "engine/not-executed" and "no_such_package" in finding["message"]


def test_a_failing_case_is_reproduced_and_minimised(check, tmp_path):
    text = SOFTMAX.replace("OTHER", "0.0")
    (finding,) = check({"softmax.py": text, "gpuemu.toml": CONFIG})["findings"]
    for verb in ("reproduce", "minimize"):
        command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", verb, finding["case"]]
        environment = {**os.environ, "GPUEMU_CACHE_DIR": str(tmp_path / ".cache")}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert f"softmax.py:{line_of(text, 'tl.store')}:5: error[numeric/tolerance-exceeded]" in done.stdout, done
    assert "cols = 3" in done.stdout and "rows = 1" in done.stdout


def test_every_kind_of_constexpr_and_decorator(check, tmp_path):
    here = Path(__file__).parent / "registered"
    for file in here.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    result = check({})
    verdicts = {kernel["name"]: kernel["status"] for kernel in result["kernels"]}
    expected = dict.fromkeys(["tuned", "total_atomic", "matmul", "desc_copy", "activate"], "passed")
    assert verdicts == {**expected, "total_racy": "failed"}
    text = (here / "kernels.py").read_text()
    lines = {line_of(text, "old = tl.load(total)"), line_of(text, "tl.store(total, old")}
    assert set(errors(result)) == {("memory/global-race", line) for line in lines}


TORCH_REFERENCES = {
    "one operation": "return torch.softmax(inputs['x'], dim=-1)",
    "steps": "above = torch.exp(inputs['x'] - inputs['x'].amax(-1, keepdim=True))\n"
    "    return above / above.sum(-1, keepdim=True)",
    "on the device": "return F.softmax(inputs['x'].to('cuda'), dim=-1)",
    "own conversion": "return torch.softmax(torch.from_numpy(inputs['x']), dim=-1).numpy()",
}


@pytest.mark.parametrize("body", TORCH_REFERENCES.values(), ids=TORCH_REFERENCES.keys())
def test_a_reference_in_pytorch(check, body):
    reference = f"import torch\nimport torch.nn.functional as F\n\n\ndef reference(inputs):\n    {body}\n"
    config = CONFIG.replace("softmax.py:reference", "ref.py").replace("num_warps = [2, 4]", "num_warps = 4")
    right = SOFTMAX.replace("OTHER", 'float("-inf")')
    text = right + right.partition("@triton.jit")[2].partition("@triton.jit")[2].partition("def reference")[0].replace(
        "def softmax", "\n\n@triton.jit\ndef softmax_buggy"
    ).replace('float("-inf")', "0.0")
    both = config + '[[kernels]]\nname = "softmax_buggy"\nlike = "softmax"\nentry = "softmax_buggy"\n'
    result = check({"softmax.py": text, "ref.py": reference, "gpuemu.toml": both})
    assert {kernel["name"]: kernel["status"] for kernel in result["kernels"]} == {
        "softmax": "passed",
        "softmax_buggy": "failed",
    }
    (finding,) = (one for one in result["findings"] if one["severity"] == "error")
    # The budget of the same formula in NumPy is 9e-6 on this case.
    assert finding["data"]["allowed"] < 1e-4


def test_limits_and_patterns_apply_to_the_code_of_each_architecture(check):
    text = SOFTMAX.replace("OTHER", 'float("-inf")')
    limits = 'max_registers = 8\nrequired_patterns = ["ex2.approx"]\nforbidden_patterns = ["ld.global"]\n'
    config = CONFIG.replace('"softmax.py"\n', '"softmax.py"\narch = ["sm_80", "sm_90"]\n', 1)
    result = check({"softmax.py": text, "gpuemu.toml": f"{config}[kernels.artifact_checks]\n{limits}"})
    (kernel,) = result["kernels"]
    assert kernel["resources"].keys() == {"sm_80", "sm_90"} and kernel["cases"]["passed"] == kernel["cases"]["run"]
    assert set(errors(result)) == {
        ("artifact/registers", line_of(text, "def softmax")),
        ("artifact/forbidden-pattern", line_of(text, "value = tl.load")),
    }


def test_the_coverage_of_all_specialisations_is_that_of_the_kernel(check, tmp_path):
    text = SOFTMAX.replace("OTHER", 'float("-inf")')
    check({"softmax.py": text, "gpuemu.toml": CONFIG})
    command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "coverage", ".", "--format", "json"]
    environment = {**os.environ, "GPUEMU_CACHE_DIR": str(tmp_path / ".cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    (file,) = json.loads(done.stdout)["files"]
    assert file["path"] == "softmax.py" and file["reached"] == file["lines"] >= 5


def test_a_kernel_is_compiled_to_an_artifact(tmp_path):
    sys.path.insert(0, str(tmp_path))
    (tmp_path / "softmax_of_test.py").write_text(SOFTMAX.replace("OTHER", "0.0"))
    import softmax_of_test

    import gpuemu.triton

    artifact = gpuemu.triton.compile(
        softmax_of_test.softmax, {"x": "*fp16", "y": "*fp32", "cols": "i32"}, {"BLOCK": 64}, "sm_90", num_warps=2
    )
    assert (artifact.arch, artifact.entries) == ("sm_90", {"softmax": "softmax"})
    assert ".reqntid 64" in artifact.ptx and "cvt.f32.f16" in artifact.ptx


def test_a_kernel_that_is_not_registered_is_named_with_the_toml_to_add(check):
    text = SOFTMAX.replace("OTHER", "0.0") + "\n\ndef run(tensors):\n    softmax[(4,)](**tensors, BLOCK=256)\n"
    result = check({"softmax.py": text}, "softmax.py")
    assert result["exit"] == 2
    (finding,) = result["findings"]
    assert finding["rule"] == "engine/not-executed"
    assert finding["range"]["start"]["line"] + 1 == line_of(text, "def softmax")
    assert "[kernels.constexprs]\nBLOCK = 256" in finding["message"] and 'source = "softmax.py"' in finding["message"]
