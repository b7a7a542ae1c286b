"""The result of one run, the input of every format, and its exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.baseline.model import Comparison
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Counts of kernels and findings, in the shape of the JSON format.

    ``checked`` kernels ran: passed, failed or without a reference. ``failed`` also counts kernels that could not be
    judged, which are not among the checked ones.
    """

    checked: int
    passed: int
    failed: int
    not_executed: int
    errors: int
    warnings: int


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One earlier check of a kernel and dtype, from the project's store. ``time`` is in seconds since the epoch."""

    time: float
    status: str
    registers: int | None
    spills: int | None


@dataclass(frozen=True, slots=True)
class ReportContext:
    """Context of a run in a report: project, commit, time, history and comparison with a baseline.

    ``history`` is by kernel and dtype, oldest check first; ``created`` is in seconds since the epoch.
    """

    project: str = ""
    created: float = 0.0
    commit: str = ""
    dirty: bool = False
    history: Mapping[tuple[str, str], tuple[HistoryEntry, ...]] = field(default_factory=dict)
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one invocation.

    Paths are shown relative to ``root``. ``stored`` names the kernels whose failing cases were stored for
    ``gpuemu reproduce``. ``context`` is set only for the formats that show it.
    ``needs_reference``: a kernel whose numbers were not compared counts as not checked.
    """

    root: str
    kernels: tuple[KernelReport, ...]
    findings: tuple[Finding, ...]
    toolchain: str = ""
    seconds: float = 0.0
    stored: frozenset[str] = frozenset()
    context: ReportContext = ReportContext()
    needs_reference: bool = False

    @property
    def summary(self) -> RunSummary:
        """Count verdicts and severities."""
        statuses = [kernel.status for kernel in self.kernels]
        return RunSummary(
            checked=sum(status in ("passed", "failed", "unreferenced") for status in statuses),
            passed=statuses.count("passed"),
            failed=sum(status in ("failed", "error") for status in statuses),
            not_executed=statuses.count("not-executed"),
            errors=sum(finding.severity is Severity.ERROR for finding in self.findings),
            warnings=sum(finding.severity is Severity.WARNING for finding in self.findings),
        )

    @property
    def exit_code(self) -> int:
        """Return 0 all checked and clean, 1 error findings, 2 bad config or something not checked, 3 internal error."""
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        if any(finding.rule == "engine/internal-error" for finding in errors):
            return EXIT_INTERNAL
        # The errors of a kernel that only its program launches are those of the program's run.
        with_errors = {finding.kernel for finding in errors}
        failed = any(kernel.status == "failed" and kernel.name not in with_errors for kernel in self.kernels)
        if failed or any(not finding.rule.startswith("config/") for finding in errors):
            return EXIT_FINDINGS
        missed = any(kernel.registered and kernel.status in ("not-executed", "error") for kernel in self.kernels)
        missed |= self.needs_reference and not all(kernel.compared for kernel in self.kernels)
        checked = any(kernel.status in ("passed", "failed", "unreferenced") for kernel in self.kernels)
        return EXIT_CLEAN if checked and not missed and not errors else EXIT_USAGE


def relative(path: str, root: str) -> str:
    """Return ``path`` relative to ``root`` with forward slashes, or unchanged if it is not below ``root``."""
    prefix = root.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else path
