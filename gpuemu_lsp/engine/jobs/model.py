"""What an artifact report holds. Light: a face imports this without NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Finding


@dataclass(frozen=True, slots=True)
class ArtifactReport:
    """One kernel instance on one architecture: the report's lines, its result, and what broke a rule.

    ``result`` is ``PASS``, ``FAIL``, ``INCOMPLETE`` (something could not be checked), ``NO CHECKS CONFIGURED`` or ``NOT
    COMPILED``.
    """

    kernel: str
    arch: str
    result: str
    lines: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    resources: Mapping[str, ResourceUsage] = field(default_factory=dict)
