"""Registered kernels in strings of a `.py`: `source = "model.py:NAME"`."""

from __future__ import annotations

import json

import pytest

from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.cli.main import main as gpuemu_lsp

KERNEL = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
"""
MODEL = f"""\
raise SystemExit("imported")
import cupy as cp

# ü🙂
SCALE = r'''
{KERNEL.replace("FACTOR", "2.5f")}'''
scale = cp.RawKernel(SCALE, "scale")


class Twice:
    def __init__(self):
        self.twice = cp.RawKernel('''{KERNEL.replace("FACTOR", "TWO")}''', "scale", options=("-DTWO=2.0f",))
"""
ENTRY = """\
[[kernels]]
name = "scale"
source = "SOURCE"
reference = "ref.py"
dims = { n = { max = 2000 } }
args = { x = { in = ["n"] }, y = { out = ["n"] }, n = "n" }
launch = { grid = "ceil_div(n, 256)", block = 256 }
"""
ERRORS = ("error", "warning")


def checked(folder, source, model=MODEL, entry=ENTRY):
    (folder / "model.py").write_text(model, encoding="utf-8")
    (folder / "ref.py").write_text("def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n")
    (folder / "gpuemu.toml").write_text(entry.replace("SOURCE", source))
    output = folder / "out.json"
    code = gpuemu_lsp(["--check", str(folder / "gpuemu.toml"), "--format", "json", "--output", str(output)])
    report = json.loads(output.read_text(encoding="utf-8"))
    return code, report, [one for one in report["findings"] if one["severity"] in ERRORS]


@pytest.mark.parametrize("name", ["SCALE", "scale"])
def test_wrong_numbers_are_on_the_statement_of_the_py(name, tmp_path):
    code, report, (finding,) = checked(tmp_path, f"model.py:{name}")
    assert code == 1 and finding["rule"] == "numeric/tolerance-exceeded"
    line = (tmp_path / "model.py").read_bytes().split(b"\n")[finding["range"]["start"]["line"]]
    start, end = (finding["range"][side]["character"] for side in ("start", "end"))
    assert line[start:end].endswith(b"y[i] = 2.5f * x[i]")
    # The other kernel of the file is checked without a reference, the registered one once.
    assert [kernel["status"] for kernel in report["kernels"]] == ["failed", "unreferenced"]


def test_an_attribute_names_the_string_and_its_options_are_used(tmp_path):
    code, report, findings = checked(tmp_path, "model.py:twice")
    assert code == 0 and not findings
    assert report["kernels"][0]["status"] == "passed"


def test_a_name_is_not_needed_where_one_string_has_the_kernel(tmp_path):
    model = MODEL[: MODEL.index("class Twice")]
    assert checked(tmp_path, "model.py", model)[2][0]["rule"] == "numeric/tolerance-exceeded"


def test_a_constant_that_no_known_call_compiles(tmp_path):
    model = f"from mine import build\nCODE = '''{KERNEL.replace('FACTOR', '2.0f')}'''\nbuild(CODE)\n"
    code, report, _ = checked(tmp_path, "model.py:CODE", model)
    assert code == 0 and report["kernels"][0]["status"] == "passed"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("model.py", 'has 2 strings with a kernel of this name. Select one: source = "model.py:SCALE"'),
        ("model.py:SCLAE", "Did you mean `SCALE`?"),
        ("ref.py", "compiles no CUDA code from a string"),
        ("ref.py:CODE", "It has no variable with CUDA code"),
    ],
)
def test_an_unknown_string_is_an_error_of_the_key(source, message, tmp_path):
    code, report, (finding,) = checked(tmp_path, source)
    assert code == 2 and finding["rule"] == "config/bad-value" and message in finding["message"]
    assert finding["path"].endswith("gpuemu.toml") and finding["range"]["start"]["line"] == 2
    assert report["kernels"][0]["status"] == "error"


def test_code_that_only_a_run_knows_is_not_clean(tmp_path):
    model = "import cupy as cp\nk = cp.RawKernel(template.render(), 'scale')\n"
    for source in ("model.py", "model.py:k"):
        code, report, _ = checked(tmp_path, source, model)
        assert code == 2 and report["kernels"][0]["status"] == "not-executed"
        (finding,) = [one for one in report["findings"] if one["kernel"] == "scale"]
        assert finding["rule"] == "engine/not-executed" and "template.render()" in finding["message"]


def test_only_a_py_has_a_name(tmp_path):
    (tmp_path / "scale.cu").write_text(KERNEL)
    code, _, (finding,) = checked(tmp_path, "scale.cu:SCALE")
    assert code == 2 and finding["rule"] == "config/bad-value" and "Only a .py file has" in finding["message"]


def test_a_stored_case_runs_again(tmp_path, monkeypatch, capsys):
    checked(tmp_path, "model.py:SCALE", MODEL[: MODEL.index("class Twice")])
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    case = next(one["case"] for one in report["findings"] if one.get("case"))
    monkeypatch.chdir(tmp_path)
    for verb in ("reproduce", "minimize"):
        capsys.readouterr()
        gpuemu([verb, case])
        assert "model.py:8:5: error[numeric/tolerance-exceeded]" in capsys.readouterr().out
