"""Uninitialised reads of shared memory whose values the kernel discards.

A pipeline loads the next tile ahead, also after the last one, and a scan adds what lanes past the end hold to sums that
nothing uses. Such a read changes no byte of a result, whatever the memory holds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.check.causes.consequences import CauseAnalysis
from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.findings import Finding, Severity

_FILLS = (0x00, 0xFF, 0x7F, 0xFE)
"""Zero, NaN (-1), and a large positive and a large negative number, which ``min`` and ``max`` do not drop both."""


def discarded_reads(analysis: CauseAnalysis) -> list[Event]:
    """Return the uninitialised reads of a launch without other errors, if no result depends on them; else none.

    For kernels that run as the program launches them: a registered one is judged by what its entry says.
    """
    reads = analysis.reads
    if analysis.runner.plan.read_launch is None or not reads or not analysis.is_repeatable:
        return []
    # An asynchronous copy from global memory names both.
    if len(reads) < len(analysis.causes) or any(
        ".shared" not in event.instruction or ".global" in event.instruction for event in reads
    ):
        return []
    launch = analysis.runner.launch_of(analysis.case)
    for fill in _FILLS:
        outcome = analysis.runner.repeat(analysis.case, replace(launch, fill=fill))
        if outcome.status != "completed" or not _same(outcome, analysis.outcome):
            return []
    return reads


def as_discarded(finding: Finding) -> Finding:
    """Return the finding of a read whose value changes nothing."""
    message = f"{finding.message}; no result of this launch depends on the value"
    return replace(finding, severity=Severity.INFORMATION, message=message)


def _same(one: Outcome, other: Outcome) -> bool:
    return one.buffers.keys() == other.buffers.keys() and all(
        np.array_equal(data, other.buffers[name]) for name, data in one.buffers.items()
    )
