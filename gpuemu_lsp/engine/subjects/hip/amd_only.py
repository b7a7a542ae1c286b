"""What of HIP only AMD's GPUs have: an instruction of theirs is no error, but the kernel is not run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuemu_lsp.engine.cause import ErrorTrait
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.subjects.language import SourceRequest

_OF_AMD = re.compile(r"__(?:builtin_amdgcn|builtin_r600|amdgcn|llvm|hip|ockl|ocml|oclc|opencl)_\w+|__gfx\w+__")


def not_errors(findings: Iterable[Finding], source: SourceRequest) -> tuple[Finding, ...]:
    """Return the findings of a compilation, those about functions of AMD's compiler as the reasons that they are."""
    return tuple(_not_errors(findings, source))


def _not_errors(findings: Iterable[Finding], source: SourceRequest) -> Iterator[Finding]:
    for finding in findings:
        name = finding.data.get("name") if ErrorTrait.UNDECLARED in finding.traits else None
        if isinstance(name, str) and _OF_AMD.fullmatch(name):
            yield source.not_run(f"`{name}` is of AMD's GPUs, and the device has no counterpart", finding.place)
        else:
            yield finding
