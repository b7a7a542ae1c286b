"""``--format github``: workflow commands, which GitHub Actions shows as annotations on the changed lines."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.source_lines import characters

_COMMAND = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "notice",
    Severity.HINT: "notice",
}


def render_github(run: Run) -> str:
    """Render an annotation for each finding except hints: GitHub shows only ten of each level."""
    shown = [finding for finding in run.findings if finding.severity is not Severity.HINT]
    return "".join(_annotation(finding, run.root) + "\n" for finding in shown)


def _annotation(finding: Finding, root: str) -> str:
    path, start, end = finding.place.path, finding.place.range.start, finding.place.range.end
    properties = {
        "file": relative(path, root),
        "line": str(start.line + 1),
        "endLine": str(end.line + 1),
        "col": str(characters(path, start) + 1),
        "endColumn": str(characters(path, end) + 1),
        "title": f"gpuemu {finding.rule}" + (f" ({finding.kernel})" if finding.kernel else ""),
    }
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{_COMMAND[finding.severity]} {listed}::{_escape(finding.whole_message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
