"""Shared by the compile tests: one place that calls the compiler, and a short way to write ranges down."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.compile import compile_source
from gpuemu_lsp.engine.compile.cache import DiskCache
from gpuemu_lsp.engine.compile.model import CompileRequest, CompileResult
from gpuemu_lsp.engine.findings import Finding

KERNEL = "__global__ void k(float* x) { x[threadIdx.x] = 1; }\n"


def compiled(text: str, folder: Path, **fields: object) -> CompileResult:
    """Compile without a disk cache: every test sees what NVRTC says now."""
    path = str(fields.pop("path", folder / "kernel.cu"))
    return compile_source(CompileRequest(path, text, **fields), DiskCache(Path("/nonexistent/cache")))  # type: ignore[arg-type]


def spans(findings: tuple[Finding, ...]) -> list[tuple[str, int, int, int]]:
    """Return (rule, line, start column, end column) of each finding."""
    return [
        (item.rule, item.place.range.start.line, item.place.range.start.column, item.place.range.end.column)
        for item in findings
    ]


def covered(text: str, finding: Finding) -> str:
    """Return the text under a finding's range, cut out by bytes as the engine counts."""
    line = text.encode().split(b"\n")[finding.place.range.start.line]
    return line[finding.place.range.start.column : finding.place.range.end.column].decode()
