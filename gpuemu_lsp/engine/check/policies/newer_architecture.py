"""Code for a newer architecture than the one it is compiled for: clusters, ``wgmma``, TMA, ``#error`` below sm_90."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from gpuemu_lsp.engine.compile.model import CompileResult
from gpuemu_lsp.engine.findings import Finding

NEWER = ("sm_90a", "sm_100a")
"""What is tried, in this order; "a" has the instructions of one generation only, which such code is written for."""

_FOR_NEWER = re.compile(
    r"architecture|\.target\b|compute capability|\bsm_\d|\bSM ?\d\d|cluster|tensor ?map|hopper|blackwell|__CUDA_ARCH__",
    re.IGNORECASE,
)
"""What compilers, headers and ``#error`` lines say then. A half-typed line says none of it: it is compiled once."""


def compiled_for_newer(
    findings: Iterable[Finding], compile_for: Callable[[str], CompileResult]
) -> CompileResult | None:
    """Return a compilation for the first newer architecture that has what the code needs; None where none has.

    ``findings`` are those of the compilation that failed.
    """
    if not any(item.rule == "compile/error" and _FOR_NEWER.search(item.message) for item in findings):
        return None
    results = map(compile_for, NEWER)
    return next((result for result in results if result.artifact is not None), None)


def advised(failed: CompileResult, arch: str) -> CompileResult:
    """Return a failed compilation whose first error says which architecture the kernel compiles for."""
    findings = list(failed.findings)
    at = next(i for i, item in enumerate(findings) if item.rule == "compile/error")
    advice = f'{findings[at].message}. It compiles for {arch}: write `arch = "{arch}"` in gpuemu.toml.'
    findings[at] = replace(findings[at], message=advice)
    return replace(failed, findings=tuple(findings))
