"""Triton kernels that gpuemu.toml does not register, checked as the file launches them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAD = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    tl.store(out + i, a + b, mask=i < n)


"""
ADD = """\
def add(x, y):
    assert x.shape == y.shape
    out = torch.empty_like(x)
    n = out.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    add_kernel[grid](x, y, out, n, BLOCK=256)
    return out
"""


@pytest.fixture
def check(tmp_path):
    """Return the JSON of the check of a file without gpuemu.toml, with the exit code."""

    def run(text, name="model.py"):
        (tmp_path / name).write_text(text)
        command = [sys.executable, "-m", "gpuemu_lsp", "--check", name, "--format", "json"]
        environment = {**os.environ, "GPUEMU_CACHE_DIR": str(tmp_path / ".cache")}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1, 2), done.stderr
        result = json.loads(done.stdout)
        result["exit"] = done.returncode
        return result

    run.folder = tmp_path
    return run


def findings(result, severity="error"):
    """Return rule and 1-based line of the findings of a severity."""
    found = [one for one in result["findings"] if one["severity"] == severity]
    return sorted({(one["rule"], one["range"]["start"]["line"] + 1) for one in found})


def test_a_correct_kernel_is_clean(check):
    result = check(HEAD + ADD)
    assert findings(result) == []
    (kernel,) = result["kernels"]
    assert kernel["status"] == "unreferenced" and kernel["cases"]["run"] > 3


@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ("tl.load(x + i, mask=i < n)", "tl.load(x + i)", "memory/out-of-bounds", 9),
        ("tl.store(out + i, a + b, mask=i < n)", "tl.store(out + i, a + b)", "memory/out-of-bounds", 11),
        (
            "tl.store(out + i, a + b, mask=i < n)",
            "tl.store(out + i * 2, a + b, mask=i < n)",
            "memory/out-of-bounds",
            11,
        ),
        ("tl.store(out + i, a + b", "tl.store(out + i // 2, a + b", "numeric/unwritten-output", 6),
        ("tl.store(out + i, a + b", "tl.store(out + i % 64, a + b", "memory/global-race", 11),
        ("a = tl.load(x + i, mask=i < n)", "a = tl.load(x + i, mask=undefined)", "compile/error", 9),
    ],
)
def test_planted_bugs_are_found(check, old, new, rule, line):
    assert old in HEAD
    result = check(HEAD.replace(old, new) + ADD)
    found = findings(result)
    assert rule in {one for one, _ in found}
    assert rule == "numeric/unwritten-output" or (rule, line) in found
    assert result["exit"] == 1


def test_a_tensor_of_unknown_shape_is_not_out_of_bounds(check):
    text = HEAD.replace("b = tl.load(y + i, mask=i < n)", "b = tl.load(y + i * 3, mask=i < n)")
    assert findings(check(text + ADD.replace("    assert x.shape == y.shape\n", ""))) == []
    assert findings(check(text + ADD)) == [("memory/out-of-bounds", 10)]


def test_statements_that_fail_after_the_kernel_do_not_matter(check):
    result = check(HEAD + ADD + "\n\nraise SystemError('no device')\n")
    assert findings(result) == [] and result["kernels"][0]["cases"]["run"] > 3


def test_only_what_the_kernel_needs_is_executed(check):
    before = "import not_installed_at_all\nimport pathlib\npathlib.Path(__file__).with_name('ran').touch()\nwhile True: pass\n"
    result = check(before + HEAD + ADD)
    assert findings(result) == [] and result["kernels"][0]["cases"]["run"] > 3
    assert not (check.folder / "ran").exists()


def test_a_size_that_no_call_has_is_information(check):
    text = HEAD.replace(", mask=i < n", "") + ADD.replace('triton.cdiv(n, meta["BLOCK"])', "n // 256")
    result = check(text)
    assert findings(result) == [] and result["kernels"][0]["cases"]["run"] > 3


def test_what_is_missing_is_stated(check):
    result = check(HEAD + ADD.replace("torch.empty_like(x)", "allocate(x)"))
    (found,) = result["findings"]
    assert found["rule"] == "engine/not-executed"
    assert "`allocate(x)`, which is passed as `out`" in found["message"] and "[[kernels]]" in found["message"]
    assert result["exit"] == 2


def test_findings_of_a_copy_of_a_file_are_in_the_copy(check):
    text = HEAD.replace("tl.load(y + i, mask=i < n)", "tl.load(y + i)") + ADD
    for name in ("model.py", "copy_of_model.py"):
        result = check(text, name)
        assert {one["path"] for one in result["findings"]} == {name}
        assert ("memory/out-of-bounds", 10) in findings(result)
