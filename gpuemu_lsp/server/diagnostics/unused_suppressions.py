"""Suppression comments of a file that suppressed nothing in a check of all its kernels."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.rules import RULES, make
from gpuemu_lsp.engine.source.ignore_comments import ignorable, suppressions
from gpuemu_lsp.server.work import Batch

_RAN = frozenset({"passed", "failed", "unreferenced"})
_DEEP_RULES = ("memory/", "sync/", "perf/")
"""Found by a quick check only in part: races and uninitialised reads may show in unoptimised code alone, inefficient
accesses with performance counters."""


def unused_suppressions(batch: Batch) -> Iterator[Finding]:
    """Yield a hint for each rule of a comment that no kernel of the batch has a finding of, on the comment's line.

    Yields none unless every kernel of the file has run: one that did not may have the finding.
    """
    reports = [check.report for check in batch.checks]
    if not reports or not batch.whole or any(report is None or report.status not in _RAN for report in reports):
        return
    path, text = batch.key.path, batch.checks[0].request.text or ""
    used = {
        (finding.place.range.start.line, finding.rule)
        for check in batch.checks
        for finding in check.findings
        if finding.place.path == path
    }
    for suppression in suppressions(text, path.endswith(".py")):
        checked = (
            suppression.rule in RULES and ignorable(suppression.rule) and not suppression.rule.startswith(_DEEP_RULES)
        )
        if checked and (suppression.line, suppression.rule) not in used:
            message = f"The last check found no `{suppression.rule}` here: this comment suppressed nothing."
            yield make("config/unused-suppression", message, Place(path, suppression.range))
