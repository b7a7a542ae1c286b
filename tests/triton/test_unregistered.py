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


RESTORED = """\
@triton.jit
def first_kernel(x, index, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    taken = tl.load(index + row)
    i = tl.arange(0, BLOCK)
    before = tl.load(x + row * n + taken)
    tl.store(x + row * n + taken, 0.0)
    BARRIER
    largest = tl.max(tl.load(x + row * n + i, mask=i < n, other=0.0), axis=0)
    tl.store(out + row, largest)
    tl.store(x + row * n + taken, before)


def first(x, index):
    rows, n = x.shape
    out = x.new_empty(rows)
    first_kernel[(rows,)](x, index, out, n, BLOCK=triton.next_power_of_2(n))
    return out
"""


@pytest.mark.parametrize(("barrier", "expected"), [("pass", [("memory/global-race", 14)]), ("tl.debug_barrier()", [])])
def test_a_load_of_what_the_program_itself_stored_at_a_loaded_index(check, barrier, expected):
    head = HEAD.partition("@triton")[0]
    found = findings(check(head + RESTORED.replace("BARRIER", barrier)), "information")
    assert [one for one in found if one[0] == "memory/global-race"] == expected


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


KERNELS = """\
import triton
import triton.language as tl

from .device import stages


@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_stages=stages())], key=[])
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""
DEVICE = """\
import torch


def stages():
    properties = torch.cuda.get_device_properties(0)
    return 2 if properties.major < 9 and torch.cuda.get_device_capability()[0] == 8 else 4
"""
LAYER = """\
import torch
from triton import cdiv

from .kernels import double


def doubled(x):
    y = torch.empty_like(x)
    double[lambda meta: (cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y
"""


@pytest.mark.parametrize("checked", ["kernels", "layer"])
@pytest.mark.parametrize(("mask", "expected"), [("i < n", []), ("i <= n", [("memory/out-of-bounds", 11)])])
def test_a_kernel_that_another_file_launches(check, checked, mask, expected):
    texts = {"__init__": "", "device": DEVICE, "layer": LAYER}
    texts["kernels"] = KERNELS.replace("tl.load(x + i, mask=i < n)", f"tl.load(x + i, mask={mask})")
    (check.folder / "lib").mkdir()
    for name, text in texts.items():
        (check.folder / "lib" / f"{name}.py").write_text(text)
    result = check(texts[checked], f"lib/{checked}.py")
    assert findings(result) == expected
    assert {one["path"].rpartition("/")[2] for one in result["findings"]} == {"kernels.py"}
    assert "of layer.py" in result["findings"][0]["message"] or expected


CHOSEN = """\
@triton.jit
def chosen(x, y, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if KIND == 0:
        result = tl.load(x + i, mask=i < n)
    elif KIND == 1:
        result = tl.load(x + i, mask=i < n) * 2
    tl.store(y + i, {result}, mask=i < n)


def f(x, kind: int):
    y = torch.empty_like(x)
    chosen[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), KIND=kind, BLOCK=128)
"""


def test_a_name_that_another_compile_time_value_defines(check):
    result = check(HEAD + CHOSEN.format(result="result"))
    assert findings(result) == []
    (hint,) = [one for one in result["findings"] if one["rule"] == "engine/not-executed"]
    assert "result is not defined" in hint["message"] and "Register it in gpuemu.toml" in hint["message"]
    assert findings(check(HEAD + CHOSEN.format(result="results"))) == [("compile/error", 21)]


def test_a_grid_rounded_down_leaves_elements_unwritten(check):
    launch = ADD.replace('triton.cdiv(n, meta["BLOCK"])', 'n // meta["BLOCK"]')
    assert findings(check(HEAD + launch)) == [("numeric/unwritten-output", 7)]
    stated = launch.replace("    grid =", "    assert n % 256 == 0\n    grid =")
    assert findings(check(HEAD + stated)) == []


SCALED_ROWS = """\
@triton.jit
def scale_rows(x, row_step, columns, factor, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = x + row * {step} + at
    tl.store(values, tl.load(values, mask=at < columns) * factor, mask=at < columns)


def scale(x, factor):
    rows, columns = x.shape
    scale_rows[(rows,)](x, x.stride(0), columns, 2.0, BLOCK=triton.next_power_of_2(columns))
    return x
"""


def test_rows_of_a_wider_tensor_are_not_taken_for_contiguous_ones(check):
    result = check(f"import torch, triton\nimport triton.language as tl\n\n{SCALED_ROWS.format(step='columns')}")
    errors = [one for one in result["findings"] if one["severity"] == "error"]
    assert {(one["rule"], one["range"]["start"]["line"]) for one in errors} == {
        ("memory/uninitialized-read", 8),
        ("memory/out-of-bounds", 8),
    }
    assert all("in the padding between the elements of x" in one["message"] for one in errors)
    assert all("x has the strides" in one["message"] for one in errors)


def test_a_kernel_that_uses_the_stride_is_clean_for_rows_of_a_wider_tensor(check):
    result = check(f"import torch, triton\nimport triton.language as tl\n\n{SCALED_ROWS.format(step='row_step')}")
    assert {one["severity"] for one in result["findings"]} == {"hint"}
    (hint,) = result["findings"]
    assert "with padded = 1 the strides of x are (columns + 8, 1)" in hint["message"]


ROWS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def means(values, begins, out, D, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_D)
    begin = tl.load(begins + row)
    end = tl.load(begins + row + 1)
    acc = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for m in range(begin, end, BLOCK_M):
        at = m + tl.arange(0, BLOCK_M)
        mask = (at[:, None] < end) & (cols[None, :] < D)
        acc += tl.sum(tl.load(values + at[:, None] * D + cols[None, :], mask=mask, other=0.0), axis=0)
    tl.store(out + row * D + cols, acc / tl.maximum(end - begin, 1), mask=cols < D)


def mean_of_rows(values, begins):
    assert values.dim() == 2 and begins.dim() == 1 and values.shape[1] <= 32
    rows, D = begins.numel() - 1, values.shape[1]
    out = torch.empty((rows, D), device=values.device)
    means[(rows,)](values, begins, out, D, BLOCK_M=16, BLOCK_D=32)
    return out
"""


@pytest.mark.parametrize(("guard", "rules"), [("< end)", set()), ("<= end)", {"memory/out-of-bounds"})])
def test_rows_between_elements_that_the_program_does_not_show(check, guard, rules):
    """What is compared with a bound of rows is not a mask of its own: the begins are integers."""
    result = check(ROWS.replace("< end)", guard))
    assert result["kernels"][0]["cases"]["run"] > 1
    assert {one["rule"] for one in result["findings"] if one["severity"] != "hint"} == rules
