"""Checks of small CUDA programs as they are, nothing configured."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions


def findings_of(folder: Path, text: str, cases: int = 4) -> list[Finding]:
    """Return the errors and warnings of a program, all of whose kernels must run."""
    path = folder / "program.cu"
    path.write_text(text.lstrip())
    requests = collect([str(path)], CheckOptions(cases=cases, store_root=None), folder).requests
    assert requests
    found = [event for request in requests for event in check_kernel(request) if isinstance(event, Finding)]
    assert not [finding for finding in found if finding.rule == "engine/not-executed"], found
    return [finding for finding in found if finding.severity in (Severity.ERROR, Severity.WARNING)]


def bug_line(text: str) -> int:
    """Return the 0-based line that ends with the comment ``// bug``."""
    (line,) = [index for index, one in enumerate(text.lstrip().split("\n")) if one.endswith("// bug")]
    return line
