"""Launches in Python: sizes of the arrays, and conditions on the way to the launch, as those of C++ functions."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.plan_facts import is_read, unused

from gpuemu_lsp.cli.main import main as gpuemu_lsp
from gpuemu_lsp.engine.compile.cache import DiskCache
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.emulator.analysis.kernel_facts import kernel_facts
from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.subjects.request import CheckOptions

CUPY = '''import math
import cupy as cp
import numpy as np
import torch
kernel = cp.RawKernel(r"""
extern "C" __global__ void twice(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}
""", "twice")
'''
PYCUDA = '''import numpy as np
import pycuda.driver as drv
from pycuda.compiler import SourceModule
mod = SourceModule("""
__global__ void twice(float* out, const float* x, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) out[i] = x[i] * 2;
}
""")
kernel = mod.get_function("twice")
'''
ROUNDED_DOWN = "kernel((n // 256,), (256,), (x, out, n))"


def plan_of(folder: Path, text: str) -> Plan:
    """Return the plan of the only kernel of a module."""
    path = folder / "model.py"
    path.write_text(text)
    (request,) = collect([str(path)], CheckOptions(store_root=None), folder).requests
    request, _ = compiled_request(request)
    assert request.text is not None
    source = replace(read(request.spec.source, request.text, request.spec.include_dirs), module=request.module)
    entries = resolve(request.spec, source).entries
    artifact = compile_source(
        CompileRequest(source.path, source.device_view, expressions=entries), DiskCache(Path("/nonexistent/cache"))
    ).artifact
    assert artifact is not None
    facts_of = partial(kernel_facts, artifact.ptx)
    (plan,) = resolve(request.spec, source, artifact.entries, facts_of).plans
    return plan


def lengths(plan: Plan) -> dict[str, str]:
    """Return the lengths of the buffers that the program shows."""
    return {arg.param: str(arg.shape[0]) for arg in plan.args if isinstance(arg, TensorArg) and arg.shape}


@pytest.mark.parametrize(
    ("body", "out"),
    [
        ("n = x.size; out = cp.empty_like(x); kernel(((n + 255) // 256,), (256,), (x, out, n))", "x_numel"),
        ("n = len(x); out = cp.zeros(n - 1); kernel((-(-n // 64),), (64,), (x, out, np.int32(n)))", "x_size_0 - 1"),
        ("m, n = x.shape; out = cp.empty((m, 2)); kernel((m,), (32,), (x, out, n))", "2 * x_size_0"),
        ("n = x.size; out = x.copy(); grid = (math.ceil(n / 32),); kernel(grid, (32,), (x, out, n))", "x_numel"),
        ("n = int(x.shape[0]); out = torch.empty(n, 4); kernel((n,), (32,), (x, out.data_ptr(), n))", "4 * x_size_0"),
    ],
)
def test_lengths_of_arrays_are_those_of_the_program(tmp_path: Path, body: str, out: str) -> None:
    """Shapes are tuples, numbers, and those of other arrays."""
    found = lengths(plan_of(tmp_path, f"{CUPY}def f(x):\n    {body}\n    return out\n"))
    assert found["out"] == out


@pytest.mark.parametrize(
    ("before", "function", "multiple"),
    [
        ("n = x.size", "", 1),
        ("n = blocks(x) * 256 + 1 if False else x.size", "def blocks(x):\n    return len(x)\n", 1),
        ("assert x.size % 256 == 0; n = x.size", "", 256),
        ("checked(x); n = x.size", "def checked(x):\n    assert x.size % 256 == 0, 'size'\n", 256),
        ("n = x.size\n    if n % 256 != 0:\n        raise ValueError('size')", "", 256),
    ],
)
def test_a_grid_rounded_down_is_for_sizes_that_the_program_demands(
    tmp_path: Path, before: str, function: str, multiple: int
) -> None:
    """Without a demand the elements after the last block are left out."""
    text = f"{CUPY}{function}def f(x):\n    {before}\n    out = cp.empty_like(x)\n    {ROUNDED_DOWN}\n    return out\n"
    plan = plan_of(tmp_path, text)
    (dim,) = plan.dims
    assert dim.multiple_of == multiple
    assert is_read(plan)
    assert "out" not in unused(plan)


@pytest.mark.parametrize(
    "rest",
    [
        "    return out[: n // 256 * 256]\n",
        "    tail(x, out)\n    return out\n",
        "    kernel((1,), (256,), (x, out, n))\n    return out\n",
        "    out += 1\n    out[n // 256 * 256 :] = 0\n",
    ],
)
def test_elements_that_something_else_may_write_are_not_judged(tmp_path: Path, rest: str) -> None:
    """Another kernel, another function, or a result of which the rest is cut off."""
    text = f"{CUPY}def f(x):\n    n = x.size\n    out = cp.empty_like(x)\n    {ROUNDED_DOWN}\n{rest}"
    plan = plan_of(tmp_path, text)
    assert is_read(plan)
    (out,) = [arg for arg in plan.args if isinstance(arg, TensorArg) and arg.param == "out"]
    assert out.direction == "inout" or "out" in unused(plan)


def test_a_caller_with_arrays_counts_and_a_benchmark_does_not(tmp_path: Path) -> None:
    """A wrapper says how its arrays are related; a benchmark which sizes it happens to try."""
    function = f"def f(x, n):\n    out = cp.empty(n)\n    {ROUNDED_DOWN}\n    return out\n"
    wrapper = "def g(x):\n    return f(x, x.size)\n"
    assert lengths(plan_of(tmp_path, CUPY + function + wrapper)) == {"x": "x_numel", "out": "x_numel"}
    benchmark = (
        "def benchmark():\n    print(f(cp.ones(1 << 16), 1 << 16))\nif __name__ == '__main__':\n    benchmark()\n"
    )
    assert lengths(plan_of(tmp_path, CUPY + function + benchmark))["out"] == "n"


def test_a_script_runs_as_it_is_written(tmp_path: Path) -> None:
    """Its sizes are constants, of which smaller ones take the place."""
    text = f"{CUPY}n = 1 << 20\nx = cp.arange(n, dtype=cp.float32)\nout = cp.empty(n)\n{ROUNDED_DOWN}\nprint(out)\n"
    plan = plan_of(tmp_path, text)
    assert is_read(plan)
    assert [dim.multiple_of for dim in plan.dims] == [256]


def test_pycuda_copies_what_a_kernel_writes_from_memory_of_its_own(tmp_path: Path) -> None:
    text = f"{PYCUDA}def f(x):\n    out = np.zeros_like(x)\n    n = np.int32(x.size)\n"
    text += "    kernel(drv.Out(out), drv.In(x), n, block=(128, 1, 1), grid=(int(-(-n // 128)), 1))\n    return out\n"
    plan = plan_of(tmp_path, text)
    assert lengths(plan) == {"out": "x_numel", "x": "x_numel"}
    assert {arg.param: arg.direction for arg in plan.args if isinstance(arg, TensorArg)} == {"out": "out", "x": "in"}


def test_an_element_that_a_rounded_grid_drops_is_found(tmp_path: Path) -> None:
    """Also if the length of another input is not known; the launch is named with its line."""
    text = CUPY.replace("const float* x", "const float* x, const float* y").replace("x[i];", "x[i] + y[i];")
    text += (
        "def f(x, y):\n    out = cp.empty_like(x)\n    n = x.size\n    kernel((n // 256,), (256,), (x, y, out, n))\n"
    )
    (tmp_path / "model.py").write_text(text + "    return out\n")
    output = tmp_path / "out.json"
    code = gpuemu_lsp(["--check", str(tmp_path / "model.py"), "--format", "json", "--output", str(output)])
    report = json.loads(output.read_text())
    (error,) = [one for one in report["findings"] if one["severity"] == "error"]
    assert (code, error["rule"], error["range"]["start"]["line"]) == (1, "numeric/unwritten-output", 5)
    (hint,) = [one for one in report["findings"] if one["rule"] == "config/launch-inferred"]
    assert f"launch of line {text.count(chr(10))}" in hint["message"]
