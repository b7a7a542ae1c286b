"""Notebooks on the command line: their kernels are checked, and findings are in the file, with their cell."""

from __future__ import annotations

import json

import pytest

from gpuemu_lsp.engine.jobs.notebook_results import in_notebooks
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.report.text import TextStyle, render_text
from gpuemu_lsp.engine.subjects.request import CheckOptions

CUDA = """%%cuda
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = 2.0f * x[i];
}
int main() {
    int n = 1000;
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    scale<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""
STRING = '''import cupy as cp
kernel = cp.RawKernel(r"""
extern "C" __global__ void add(const float* x, float* y, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1.0f;
}
""", "add")
'''
LAUNCH = """%timeit 1
x = cp.ones(1000, dtype=cp.float32)
y = cp.empty_like(x)
kernel(((x.size + 127) // 128,), (128,), (x, y, cp.int32(x.size)))
"""


def notebook(*cells):
    made = [{"cell_type": "code", "metadata": {}, "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_kernels_of_cells_are_checked_and_findings_are_in_the_file(tmp_path, monkeypatch):
    """A launch of one cell is one of the kernel in another; there is no file with the text of a cell to find."""
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    path = tmp_path / "n.ipynb"
    path.write_text(notebook(CUDA, STRING, LAUNCH))
    targets = collect([path.name], CheckOptions(), tmp_path)
    assert [request.spec.name for request in targets.requests] == ["add", "scale"]
    assert {request.options.store_root for request in targets.requests} == {None}
    assert path.as_posix() in targets.watched
    with open_pool(1, "emulator") as pool:
        run = in_notebooks(run_requests(targets.requests, targets.findings, targets.root, pool), targets.notebooks)
    assert {kernel.source for kernel in run.kernels} == {path.as_posix()}
    assert [kernel.cases.run > 2 for kernel in run.kernels] == [True, True]
    (error,) = (finding for finding in run.findings if finding.severity == "error")
    line = path.read_text().splitlines()[error.place.range.start.line]
    assert json.loads(line.strip().rstrip(",")) == "    if (i <= n) y[i] = 2.0f * x[i];\n"
    assert (error.kernel, error.data["cell"], error.data["cell_line"]) == ("scale", 1, 4)
    assert "scale, float32, cell 1, line 4" in render_text(run, TextStyle())


@pytest.mark.parametrize("argument", ["n.ipynb", "."])
def test_a_notebook_is_found_by_its_name_and_in_its_folder(tmp_path, monkeypatch, argument):
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    (tmp_path / "n.ipynb").write_text(notebook(CUDA))
    (tmp_path / "plain.ipynb").write_text(notebook("print(1)\n"))
    (tmp_path / "broken.ipynb").write_text("{")
    targets = collect([argument], CheckOptions(), tmp_path)
    assert [request.spec.name for request in targets.requests] == ["scale"]
    assert targets.findings == ()


@pytest.mark.parametrize(
    ("text", "says"), [(notebook("print(1)\n"), "no kernels in its cells"), ("{", "is not JSON"), (b"\xff", "UTF-8")]
)
def test_a_notebook_without_kernels_says_so(tmp_path, monkeypatch, text, says):
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    path = tmp_path / "n.ipynb"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (finding,) = collect([path.name], CheckOptions(), tmp_path).findings
    assert finding.rule == "engine/not-executed"
    assert says in finding.message
    assert finding.place.path == path.as_posix()
