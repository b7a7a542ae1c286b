"""Compile errors of code for a newer architecture than the one it is compiled for.

Clusters, ``wgmma``, TMA and ``#error`` directives need sm_90 or later. An unregistered file with them is compiled for
a newer architecture; a registered one keeps its error, with the architecture to set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gpuemu_lsp.engine.cause import ErrorTrait
from gpuemu_lsp.engine.compile.model import CompileResult
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.findings import Finding

NEWER = ("sm_90a", "sm_100a")
"""Architectures to try, in this order. The suffix "a" enables instructions that exist in one generation only, which
such code usually needs. An error that names no architecture or feature of one, such as that of a half-typed line, is
not compiled again."""


def or_newer(failed: CompileResult, registered: bool, compile_for: Callable[[str], CompileResult]) -> CompileResult:
    """Return a compilation for a newer architecture if the code is written for one, else ``failed``.

    A registered kernel's architecture is the user's choice: its first error then names the one to set.
    """
    try:
        newer = compiled_for_newer(failed.findings, compile_for)
    except ToolchainError:
        # An older toolkit does not know these architectures.
        return failed
    if newer is None or newer.artifact is None:
        return failed
    return _with_advice(failed, newer.artifact.arch) if registered else newer


def compiled_for_newer(
    findings: Iterable[Finding], compile_for: Callable[[str], CompileResult]
) -> CompileResult | None:
    """Return the first successful compilation for a newer architecture, None if there is none.

    ``findings`` are those of the compilation that failed; without an error about architectures nothing is compiled.
    """
    if not any(item.rule == "compile/error" and ErrorTrait.NEWER_ARCHITECTURE in item.traits for item in findings):
        return None
    results = map(compile_for, NEWER)
    return next((result for result in results if result.artifact is not None), None)


def _with_advice(failed: CompileResult, arch: str) -> CompileResult:
    findings = list(failed.findings)
    at = next(i for i, item in enumerate(findings) if item.rule == "compile/error")
    advice = f'{findings[at].message}. It compiles for {arch}: set `arch = "{arch}"` in gpuemu.toml.'
    findings[at] = replace(findings[at], message=advice)
    return replace(failed, findings=tuple(findings))
