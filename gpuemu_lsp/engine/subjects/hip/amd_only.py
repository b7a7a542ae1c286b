"""What of HIP only AMD's GPUs have: a kernel with such an instruction is not run, without an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuemu_lsp.engine.cause import ErrorTrait
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.source.headers.hip import is_of_amd
from gpuemu_lsp.engine.subjects.language import SourceRequest


def not_errors(findings: Iterable[Finding], source: SourceRequest) -> tuple[Finding, ...]:
    """Return the findings of a compilation, those about functions of AMD's compiler as the reasons that they are."""
    return tuple(_not_errors(findings, source))


def _not_errors(findings: Iterable[Finding], source: SourceRequest) -> Iterator[Finding]:
    for finding in findings:
        name = finding.data.get("name") if ErrorTrait.UNDECLARED in finding.traits else None
        if isinstance(name, str) and is_of_amd(name):
            yield source.not_run(f"`{name}` is of AMD's GPUs, and the device has no counterpart", finding.place)
        else:
            yield finding
