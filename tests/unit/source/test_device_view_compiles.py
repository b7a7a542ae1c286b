"""NVRTC compiles the device views of typical CUDA sources without errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.view_samples import SAMPLES, Sample

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.ptx.slicing import code_identity
from gpuemu_lsp.engine.source import device_views, of_kernels, read


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_compiles(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    for name, text in (*sample.headers, ("kernel.cu", sample.text)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, newline="", encoding="utf-8")
    source = read(str(path), sample.text)
    result = compile_source(
        CompileRequest(str(path), source.device_view, expressions=sample.expressions, headers=source.headers)
    )
    errors = [finding for finding in result.findings if finding.severity is Severity.ERROR]
    assert not errors, source.device_view
    assert result.artifact is not None
    assert set(result.artifact.entries) == set(sample.expressions)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_each_kernel_has_the_same_code_without_the_others(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    for name, text in (*sample.headers, ("kernel.cu", sample.text)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, newline="", encoding="utf-8")
    views = device_views(str(path), sample.text)
    for expression in sample.expressions:
        name = expression.partition("<")[0].rpartition("::")[2]
        codes = []
        for shown in (views, of_kernels(views, {name})):
            request = CompileRequest(str(path), shown.view, expressions=(expression,), headers=shown.headers)
            artifact = compile_source(request).artifact
            assert artifact is not None, shown.view
            codes.append(code_identity(artifact.ptx, [artifact.entries[expression]]))
        assert codes[0] == codes[1]


def test_the_other_kernels_and_their_helpers_are_left_out() -> None:
    text = (
        "__device__ float twice(float v) { return 2 * v; }\n"
        "template <class T> T half_of(T v) { return v / 2; }\n"
        "__global__ void a(float* x) { x[0] = twice(x[0]); }\n"
        "template <class T> __global__ void b(T* x) { x[0] = half_of(x[0]); }\n"
        "template __global__ void b<float>(float*);\n"
        "template <> __global__ void b<int>(int* x) { *x = 1; }\n"
        "__global__ void c(float* x) { a<<<1, 1>>>(x); }\n"
    )
    views = device_views("/nowhere/kernel.cu", text)
    lines = text.split("\n")

    def kept(name: str) -> list[int]:
        view = of_kernels(views, {name}).view.split("\n")
        assert all(line in ("", lines[number]) for number, line in enumerate(map(str.rstrip, view)))
        return [number for number, line in enumerate(view) if line.strip()]

    assert kept("a") == [0, 2]
    assert kept("b") == [0, 1, 3, 4, 5]
    assert kept("c") == [0, 2, 6]
