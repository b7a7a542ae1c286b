"""Uninitialised reads whose values the kernel discards.

A pipeline loads the next tile ahead, also after the last one, a scan adds what lanes past the end hold to sums that
nothing uses, and the last page of a cache is read as a whole. Such a read changes no byte of a result, whatever the
memory holds: shared memory, or the bytes of an argument that nothing has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.check.causes.consequences import CauseAnalysis
from gpuemu_lsp.engine.execution import Buffer, Event, Outcome
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.plan.facts import PlanOrigin

_FILLS = (0x00, 0xFF, 0x7F, 0xFE)
"""Zero, NaN (-1), and a large positive and a large negative number, which ``min`` and ``max`` do not drop both."""


def discarded_reads(analysis: CauseAnalysis) -> list[Event]:
    """Return the uninitialised reads of a launch without other errors, if no result depends on them; else none.

    For kernels that run as the program launches them: a registered one is judged by what its entry says.
    """
    reads = analysis.reads
    if (
        analysis.runner.plan.facts.origin not in (PlanOrigin.HOST_CODE, PlanOrigin.PYTHON)
        or not reads
        or not analysis.is_repeatable
    ):
        return []
    launch, arguments = analysis.runner.launch_of(analysis.case), pack_arguments(analysis.runner.plan, analysis.case)
    incomplete = {one.name: one for one in arguments if isinstance(one, Buffer) and not one.initialized}
    # An asynchronous copy from global memory names both.
    if len(reads) < len(analysis.causes) or any(
        event.buffer not in incomplete and (".shared" not in event.instruction or ".global" in event.instruction)
        for event in reads
    ):
        return []
    for fill in _FILLS:
        contents = tuple(one.with_unwritten(fill) if isinstance(one, Buffer) else one for one in arguments)
        outcome = analysis.runner.repeat(analysis.case, replace(launch, fill=fill), contents)
        if outcome.status != "completed" or not _same(outcome, analysis.outcome, incomplete):
            return []
    return reads


def as_discarded(finding: Finding) -> Finding:
    """Return the finding of a read whose value changes nothing."""
    message = f"{finding.message}; no result of this launch depends on the value"
    return replace(finding, severity=Severity.INFORMATION, message=message)


def _same(one: Outcome, other: Outcome, incomplete: Mapping[str, Buffer]) -> bool:
    """Return whether two launches have left the same, but for bytes of ``incomplete`` that nothing has written."""
    if one.buffers.keys() != other.buffers.keys() or one.written is None or other.written is None:
        return False
    for name, data in one.buffers.items():
        known = np.ones(len(data), np.bool_)
        if name in incomplete:
            known = one.written[name]
            if not np.array_equal(known, other.written[name]):
                return False
            initial = incomplete[name].initialized_bytes
            known = known if initial is None else known | initial
        if not np.array_equal(data[known], other.buffers[name][known]):
            return False
    return True
