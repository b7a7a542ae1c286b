"""``--format gitlab``: GitLab's code quality report, a subset of the Code Climate format."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from gpuemu_lsp.engine.findings import Finding, Json, Severity
from gpuemu_lsp.engine.report.model import Run, relative

_SEVERITY = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFORMATION: "info"}


def render_gitlab(run: Run) -> str:
    """Render an issue for each finding except hints."""
    shown = [finding for finding in run.findings if finding.severity is not Severity.HINT]
    seen: Counter[str] = Counter()
    issues: list[Json] = []
    for finding in shown:
        issues.append(_issue(finding, seen[finding.fingerprint], run.root))
        seen[finding.fingerprint] += 1
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"


def _issue(finding: Finding, earlier: int, root: str) -> Json:
    # GitLab merges issues with equal fingerprints, so a second finding of the same kind on a line gets another.
    identity = f"{finding.fingerprint}{earlier or ''}"
    return {
        "description": f"{finding.kernel}: {finding.whole_message}" if finding.kernel else finding.whole_message,
        "check_name": finding.rule,
        "fingerprint": hashlib.blake2b(identity.encode(), digest_size=16).hexdigest(),
        "severity": _SEVERITY[finding.severity],
        "location": {
            "path": relative(finding.place.path, root),
            "lines": {"begin": finding.place.range.start.line + 1},
        },
    }
