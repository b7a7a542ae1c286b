"""Records that front ends decode from job results. Does not import NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Finding


@dataclass(frozen=True, slots=True)
class ArtifactReport:
    """The report of one kernel instance on one architecture: text lines, result and findings.

    ``result`` is ``PASS``, ``FAIL``, ``INCOMPLETE`` (something could not be checked), ``NO CHECKS CONFIGURED`` or ``NOT
    COMPILED``.
    """

    kernel: str
    arch: str
    result: str
    lines: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    resources: Mapping[str, ResourceUsage] = field(default_factory=dict)
    ptx: str = ""
    """The compiled file's PTX, where it was asked for."""
