"""Plans of Triton kernels, from gpuemu.toml and the text of the `.py`; Triton is not needed."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.fuzz import cases
from gpuemu_lsp.engine.plan.model import ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.triton import Tuning, choose_triton_kernel, resolve_triton
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.source.python import read_python

SOURCE = """\
import triton
import triton.language as tl

@triton.jit
def scale(x, y, n, factor, BLOCK: tl.constexpr, REVERSE: tl.constexpr = False, eps=1e-5):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)
"""
ENTRY = """
[[kernels]]
name = "scale"
source = "scale.py"
dtypes = ["float32", "float16"]
[kernels.dims]
n = { min = 1, max = 300 }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"], dtype = "float32" }
n = "n"
factor = 0.5
"""
BLOCK = "[kernels.constexprs]\nBLOCK = 64\n"
LAUNCH = '[kernels.launch]\ngrid = ["ceil_div(n, BLOCK)"]\n'


def resolved(tmp_path, text, source=SOURCE, tuning=Tuning()):  # noqa: B008 - immutable
    (tmp_path / "scale.py").write_text(source)
    (tmp_path / "gpuemu.toml").write_text(text)
    project = load(tmp_path / "gpuemu.toml")
    assert not project.findings, [finding.message for finding in project.findings]
    (spec,) = project.kernels
    python = read_python(spec.source, source)
    kernel, findings = choose_triton_kernel(spec, python)
    assert kernel is not None and not findings
    return resolve_triton(spec, python, kernel, tuning)


def messages(result):
    return [finding.message for finding in result.findings]


def test_each_dtype_gives_a_plan_and_fixed_dtypes_stay(tmp_path):
    result = resolved(tmp_path, ENTRY + BLOCK + LAUNCH)
    assert [plan.dtype for plan in result.plans] == ["float32", "float16"]
    tensors = [arg.dtype for arg in result.plans[1].args if isinstance(arg, TensorArg)]
    assert tensors == ["float16", "float32"]
    scalars = {arg.param: (arg.dtype, arg.constexpr) for arg in result.plans[0].args if isinstance(arg, ScalarArg)}
    assert scalars == {
        "n": ("int64", False),
        "factor": ("float32", False),
        "eps": ("float32", False),
        "BLOCK": ("int64", True),
        "REVERSE": ("bool", True),
    }


@pytest.mark.parametrize(
    ("value", "blocks"),
    [("64", {64}), ("[32, 128]", {32, 128}), ('"next_pow2(n)"', None), ('["next_pow2(n)", "2 * next_pow2(n)"]', None)],
)
def test_the_grid_depends_on_a_constexpr(tmp_path, value, blocks):
    text = ENTRY + f"[kernels.constexprs]\nBLOCK = {value}\n" + LAUNCH
    plan = resolved(tmp_path, text).plans[0]
    found = set()
    for case in cases(plan, 1, 12):
        block = int(case.scalars["BLOCK"])
        found.add(block)
        assert case.grid == (-(-case.dims["n"] // block), 1, 1)
    assert blocks is None or found == blocks


def test_every_listed_value_is_tried(tmp_path):
    text = ENTRY + "[kernels.constexprs]\nBLOCK = 64\nREVERSE = [false, true]\n" + LAUNCH + "num_warps = [2, 8]\n"
    plan = resolved(tmp_path, text).plans[0]
    drawn = list(cases(plan, 7, 12))
    assert {bool(case.scalars["REVERSE"]) for case in drawn} == {False, True}
    assert {case.block[0] for case in drawn} == {64, 256}


def test_text_and_types_are_chosen_by_number(tmp_path):
    text = ENTRY + '[kernels.constexprs]\nBLOCK = 64\nREVERSE = ["\'up\'", "tl.float16", "None"]\n' + LAUNCH
    plan = resolved(tmp_path, text).plans[0]
    (choice,) = plan.triton.choices
    assert [value.text for value in choice.values] == ["'up'", "tl.float16", "None"]
    assert {case.dims["REVERSE"] for case in cases(plan, 7, 16)} == {1, 2, 3}


def test_the_grid_depends_on_the_configuration_of_an_autotuner(tmp_path):
    tuning = Tuning(({"BLOCK": parse(32)}, {"BLOCK": parse(128)}))
    plan = resolved(tmp_path, ENTRY + LAUNCH, tuning=tuning).plans[0]
    grids = {(case.dims["config"], case.dims["n"], case.grid[0]) for case in cases(plan, 3, 12)}
    assert all(grid == -(-n // (32, 128)[config - 1]) for config, n, grid in grids)
    assert {config for config, *_ in grids} == {1, 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ENTRY + LAUNCH, "BLOCK has no value. Add: [kernels.constexprs] BLOCK = 128"),
        (ENTRY.replace("factor = 0.5", "") + BLOCK + LAUNCH, "factor has no value"),
        (ENTRY + "BLOCK = 64\n" + LAUNCH, "'BLOCK' is a tl.constexpr; set it in [kernels.constexprs]."),
        (ENTRY + "fctor = 1.0\n" + BLOCK + LAUNCH, "'scale' has no parameter 'fctor'. Did you mean 'factor'?"),
        (ENTRY + BLOCK + LAUNCH + "block = 256\n", "Triton determines `block` itself"),
        (ENTRY + BLOCK + '[kernels.launch]\ngrid = ["ceil_div(n, TILE)"]\n', "Unknown dimension 'TILE' in the grid"),
        (ENTRY.partition("[kernels.args]")[0], "its arguments and grid are not configured"),
    ],
)
def test_what_is_missing_is_named(tmp_path, text, expected):
    result = resolved(tmp_path, text)
    assert not result.plans
    assert any(expected in message for message in messages(result)), messages(result)


def test_a_kernel_without_entry_is_the_one_that_the_file_launches(tmp_path):
    source = SOURCE.replace("def scale", "def helper") + SOURCE.replace("import", "# ").replace("scale", "run")
    source += "\n\ndef call(x, y, n):\n    run[(1,)](x, y, n, 2.0, BLOCK=64)\n"
    plan = resolved(tmp_path, ENTRY + BLOCK + LAUNCH, source).plans[0]
    assert plan.entry == "run"
