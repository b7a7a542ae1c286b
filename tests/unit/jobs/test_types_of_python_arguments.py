"""Arguments of launches in Python whose bytes the kernel reads as another type."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuemu_lsp.engine.findings import Finding, ModulePlace
from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.subjects.request import CheckOptions

MODULE = '''import math
import cupy as cp
import numpy as np
import torch
scale = cp.RawKernel(r"""
extern "C" __global__ void scale(const float* x, float* y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i];
}
""", "scale")


def run(n, x, dtype):
'''
LAUNCH = "scale(((n + 255) // 256,), (256,), (a, b, by, n))"
FLOATS = "a = cp.zeros(n, dtype=cp.float32); b = cp.empty_like(a); by = np.float32(2)"


def errors(folder: Path, body: str) -> list[Finding]:
    """Return the errors about argument types of the only kernel of a module."""
    path = folder / "model.py"
    path.write_text(MODULE + "".join(f"    {line.strip()}\n" for line in f"{body}; {LAUNCH}".split(";")))
    (request,) = collect([str(path)], CheckOptions(store_root=None), folder).requests
    request, located = compiled_request(request)
    assert request.text is not None
    source = replace(read(request.spec.source, request.text, request.spec.include_dirs), module=request.module)
    found = [one for one in resolve(request.spec, source).findings if one.rule == "api/argument-type"]
    launch = path.read_text().count("\n") - 1
    assert all(isinstance(one.place, ModulePlace) for one in found)
    assert all(located(one).place.range.start.line == launch for one in found)
    return found


@pytest.mark.parametrize(
    "body",
    [
        "a = cp.linspace(0.0, 1.0, n); b = cp.empty(n, cp.float32); by = np.float32(2)",
        "a = cp.zeros(n); b = cp.zeros(n, dtype='float32'); by = np.float32(2)",
        "a = cp.full(n, 2.0, np.float64); b = cp.zeros(n, 'float32'); by = np.float32(2)",
        "a = cp.arange(n); b = cp.zeros(n, 'float32'); by = np.float32(2)",
        "a = cp.arange(n, dtype=cp.int32); b = cp.zeros(n, 'float32'); by = np.float32(2)",
        "a = cp.asarray(np.random.rand(n)); b = cp.zeros(n, 'float32'); by = np.float32(2)",
        "a = torch.zeros(n, dtype=torch.float64); b = torch.zeros(n); by = np.float32(2)",
        "a = cp.ones(n, cp.float32).astype(cp.float64); b = cp.zeros(n, 'float32'); by = np.float32(2)",
        "a = 2 * cp.zeros(n) + 1; b = cp.zeros(n, 'float32'); by = np.float32(2)",
        f"{FLOATS}; by = 0.5",
        f"{FLOATS}; by = float(n)",
        f"{FLOATS}; by = 1.5 * n",
        f"{FLOATS}; by = -2.5",
        f"{FLOATS}; by = 2",
        f"{FLOATS}; by = np.float64(2)",
        f"{FLOATS}; by = np.float16(2)",
    ],
)
def test_bytes_of_another_type_are_an_error(tmp_path: Path, body: str) -> None:
    assert len(errors(tmp_path, body)) == 1


@pytest.mark.parametrize(
    "body",
    [
        FLOATS,
        "a = x; b = cp.empty_like(x); by = np.float32(2)",
        "a = cp.zeros(n, dtype); b = cp.zeros(n, dtype=dtype); by = np.float32(2)",
        "a = cp.zeros(n, dtype='f'); b = cp.zeros(n, np.single); by = np.float32(2)",
        "a = cp.asarray(x, cp.float32); b = cp.zeros_like(cp.zeros(n), dtype=cp.float32); by = np.float32(2)",
        "a = cp.asarray(np.random.rand(n), cp.float32); b = cp.zeros(n, cp.float32); by = np.float32(2)",
        "a = np.random.rand(n).astype(np.float32); a = cp.asarray(a); b = cp.zeros(n, cp.float32); by = np.float32(2)",
        "a = cp.zeros(n).astype('f'); b = cp.zeros(n).astype('float32'); by = np.float32(2)",
        "a = cp.zeros(n).astype(dtype); b = torch.zeros(n); by = np.float32(2)",
        "a = cp.zeros(n, dtype=cp.uint8); b = cp.zeros(n, cp.float32).view(cp.int64); by = np.float32(2)",
        "a = (cp.arange(n) / n).astype(cp.float32); b = torch.arange(n) * 0.5; by = np.float32(2)",
        "a = cp.zeros(n, cp.float32) * 2 + 1.5; b = cp.sqrt(a); by = np.float32(2) * 3",
        f"{FLOATS}; by = np.float32(2) * x",
        f"{FLOATS}; by = x",
        f"{FLOATS}; by = n",
        f"{FLOATS}; by = np.sqrt(np.float32(2))",
    ],
)
def test_a_type_that_agrees_or_is_not_shown_is_none(tmp_path: Path, body: str) -> None:
    assert not errors(tmp_path, body)
