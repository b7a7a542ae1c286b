"""NVRTC compiles the device views of typical CUDA sources without errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.view_samples import SAMPLES, Sample

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.source import read


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
