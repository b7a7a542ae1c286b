"""CUDA code in strings of a `.py`: findings on its lines, nothing of it imported."""

from __future__ import annotations

import json
import re

import pytest

from gpuemu_lsp.cli.main import main as gpuemu_lsp

GUARD = "if (i <= n) y[i] = 2.0f * x[i];"
BODY = (
    'extern "C" __global__ void scale(const float* x, float* y, int n) {{\n'
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    {guard}\n"
    "}}\n"
)
HOST = "void run(float* x, float* y, int n) { scale<<<(n + 255) / 256, 256>>>(x, y, n); }\n"

FORMS = {
    "RawKernel": "import cupy as cp\n\n# ü🙂\nscale = cp.RawKernel(r'''\n%s''', 'scale')\n",
    "RawModule": "import cupy\n\nmodule = cupy.RawModule(code='''%s''', options=('-std=c++17',))\nk = module.get_function('scale')\n",
    "load_inline": "from torch.utils.cpp_extension import load_inline\nm = load_inline('m', '', ['int one;', '''%s'''], ['run'])\n",
    "SourceModule": "from pycuda.compiler import SourceModule\nCODE = '''%s'''\nmod = SourceModule(CODE)\n",
    "dedent": "import cupy as cp, textwrap\nscale = cp.RawKernel(textwrap.dedent('''\n%s'''), 'scale')\n",
    "escaped": "import cupy as cp\nscale = cp.RawKernel('%s', 'scale')\n",
    "f-string": "import cupy as cp\nN = 2\nscale = cp.RawKernel(f'#define N {N}\\n' r'''%s''', 'scale')\n",
}


def written(form, guard):
    body = BODY.format(guard=guard)
    if form == "load_inline":
        body += HOST
    if form == "dedent":
        body = "".join(f"        {line}" for line in body.splitlines(True))
    if form == "escaped":
        body = body.replace("\n", "\\n")
    return FORMS[form].replace("%s", body)


def checked(tmp_path, text, *options):
    (tmp_path / "model.py").write_text("raise SystemExit('imported')\n" + text, encoding="utf-8")
    output = tmp_path / "out.json"
    code = gpuemu_lsp(["--check", str(tmp_path / "model.py"), "--format", "json", "--output", str(output), *options])
    return code, json.loads(output.read_text(encoding="utf-8"))


@pytest.mark.parametrize("form", FORMS)
def test_a_bug_is_on_its_line_and_column(form, tmp_path):
    code, report = checked(tmp_path, written(form, GUARD))
    assert code == 1
    finding = next(one for one in report["findings"] if one["severity"] == "error")
    assert finding["rule"] == "memory/out-of-bounds" and finding["kernel"] == "scale"
    line = (tmp_path / "model.py").read_bytes().split(b"\n")[finding["range"]["start"]["line"]]
    start, end = (finding["range"][side]["character"] for side in ("start", "end"))
    # JSON counts UTF-8 bytes, as the schema says.
    assert line[start:end].decode() in (GUARD, GUARD[:-1], "y[i] = 2.0f * x[i]")


@pytest.mark.parametrize("form", FORMS)
def test_the_correct_kernel_is_clean(form, tmp_path):
    code, report = checked(tmp_path, written(form, GUARD.replace("<=", "<")))
    assert code == 0 and [kernel["status"] for kernel in report["kernels"]] == ["unreferenced"]
    assert not [one for one in report["findings"] if one["severity"] in ("error", "warning")]


def test_a_compile_error_is_on_its_token(tmp_path):
    code, report = checked(tmp_path, written("RawKernel", "y[i] = twice(x[i]);"))
    assert code == 1
    (finding,) = [one for one in report["findings"] if one["severity"] == "error"]
    line = (tmp_path / "model.py").read_text(encoding="utf-8").split("\n")[finding["range"]["start"]["line"]]
    assert finding["rule"] == "compile/error" and line[finding["range"]["start"]["character"] :].startswith("twice")


def test_code_that_only_a_run_knows_is_not_clean(tmp_path):
    code, report = checked(tmp_path, "import cupy as cp\nk = cp.RawKernel(template.render(), 'k')\n")
    assert code == 2
    (finding,) = report["findings"]
    assert finding["rule"] == "engine/not-executed" and "template.render()" in finding["message"]


def test_a_comment_in_the_string_suppresses_its_finding(tmp_path):
    race = "if (i < n) y[0] = x[i];"
    for comment, errors in (("", 1), ("  // gpuemu: ignore[memory/global-race]", 0)):
        _, report = checked(tmp_path, written("RawKernel", race + comment))
        assert len([one for one in report["findings"] if one["severity"] == "error"]) == errors


def test_a_folder_takes_its_python_files_with_cuda_code(tmp_path):
    (tmp_path / "plain.py").write_text("import numpy\n")
    (tmp_path / "other.py").write_text("class SourceModule:\n    pass\n\nmodule = SourceModule()\n")
    checked(tmp_path, written("RawKernel", GUARD))
    output = tmp_path / "folder.json"
    assert gpuemu_lsp(["--check", str(tmp_path), "--format", "json", "--output", str(output)]) == 1
    report = json.loads(output.read_text())
    assert [kernel["name"] for kernel in report["kernels"]] == ["scale"]
    assert not [finding for finding in report["findings"] if finding["path"].endswith("other.py")]


def test_kernels_of_one_name_in_two_strings_are_both_checked(tmp_path):
    text = written("RawKernel", GUARD.replace("<=", "<")) + written("SourceModule", GUARD)
    code, report = checked(tmp_path, text)
    assert code == 1 and sorted(kernel["status"] for kernel in report["kernels"]) == ["failed", "unreferenced"]


def test_the_instances_that_a_program_names_are_checked(tmp_path):
    kernel = (
        "template <typename T, int N> __global__ void fill(T* y, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i + N] = N;\n}\n"
    )
    text = (
        f"import cupy\nm = cupy.RawModule(code='''{kernel}''', name_expressions=['fill<float, 0>', 'fill<double, 1>'])\n"
        "a = m.get_function('fill<float, 0>')\n"
    )
    code, report = checked(tmp_path, text)
    names = {kernel["name"]: kernel["status"] for kernel in report["kernels"]}
    assert code == 1 and names == {"fill<float, 0>": "unreferenced", "fill<double, 1>": "failed"}
    line = next(one for one in report["findings"] if one["severity"] == "error")["range"]["start"]["line"]
    assert "y[i + N]" in (tmp_path / "model.py").read_text().split("\n")[line]


def test_the_files_of_load_are_checked_where_they_are(tmp_path):
    (tmp_path / "k.cu").write_text(BODY.format(guard=GUARD) + HOST)
    code, report = checked(tmp_path, "from torch.utils.cpp_extension import load\nm = load('m', ['k.cpp', 'k.cu'])\n")
    finding = next(one for one in report["findings"] if one["severity"] == "error")
    assert code == 1 and finding["path"].endswith("k.cu") and finding["range"]["start"]["line"] == 2


ROWS = """\
extern "C" __global__ void row_sum(const float* x, float* y, int cols) {
    __shared__ float part[64];
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += 64) sum += x[blockIdx.x * cols + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""
LAUNCH = """
def rows_of(x, y):
    rows, cols = x.shape[0], x.shape[1]
    row_sum((rows,), (64,), (x, y, cp.int32(cols)))
"""


def test_grid_and_block_of_a_launch_in_python(tmp_path):
    text = f"import cupy as cp\nrow_sum = cp.RawKernel(r'''{ROWS}''', 'row_sum')\n{LAUNCH}"
    code, report = checked(tmp_path, text)
    (hint,) = [one for one in report["findings"] if one["rule"] == "config/launch-inferred"]
    assert code == 0 and [kernel["status"] for kernel in report["kernels"]] == ["unreferenced"]
    found = re.search(
        r"x: in \[cols \* x_size_0\]; y: out \[x_size_0\]; x_size_0: any; launch of line (\d+)", hint["message"]
    )
    assert found is not None, hint["message"]
    assert "row_sum((rows,)" in (tmp_path / "model.py").read_text().split("\n")[int(found[1]) - 1]
