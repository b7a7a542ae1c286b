"""What a run of unoptimised code may claim: what the optimiser hides, and nothing about numbers or time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpuemu_lsp.engine.findings import Finding

_SHOWN = frozenset(
    {
        *("memory/out-of-bounds", "memory/misaligned", "memory/null-pointer", "memory/uninitialized-read"),
        *("memory/shared-race", "memory/global-race"),
        *("sync/barrier-divergence", "sync/deadlock", "sync/missing-warp-mask"),
    }
)
"""Unoptimised code takes longer, has deeper stacks and rounds where a fused product does not: no other rule holds."""


def hidden(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what holds of the source, whatever a compiler makes of it, and say on which level it was seen."""
    for finding in findings:
        if finding.rule in _SHOWN:
            yield replace(
                finding,
                message=f"{finding.message} [seen in unoptimised code only]",
                data={**finding.data, "optimize": False},
            )
