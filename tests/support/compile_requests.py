"""Compilation without a cache, and compact forms of findings' ranges, for the tests of ``compile``."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.compile.cache import DiskCache
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest, CompileResult
from gpuemu_lsp.engine.findings import Finding

KERNEL = "__global__ void k(float* x) { x[threadIdx.x] = 1; }\n"


def compiled(text: str, folder: Path, **fields: object) -> CompileResult:
    """Compile a text without a disk cache."""
    path = str(fields.pop("path", folder / "kernel.cu"))
    return compile_source(CompileRequest(path, text, **fields), DiskCache(Path("/nonexistent/cache")))  # type: ignore[arg-type]


def spans(findings: tuple[Finding, ...]) -> list[tuple[str, int, int, int]]:
    """Return (rule, line, start column, end column) of each finding."""
    return [
        (item.rule, item.place.range.start.line, item.place.range.start.column, item.place.range.end.column)
        for item in findings
    ]


def covered(text: str, finding: Finding) -> str:
    """Return the text under a finding's range, whose columns are bytes."""
    line = text.encode().split(b"\n")[finding.place.range.start.line]
    return line[finding.place.range.start.column : finding.place.range.end.column].decode()
