"""Claims about accesses whose index is computed from floating-point numbers in memory.

The position of a particle, or a coordinate in an image, is an index only where it lies within the domain, and host code
does not show the range of such values. Random ones lead outside of every buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from gpuemu_lsp.engine.execution import Event, Request
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.ptx.model import Location

_RULES = frozenset({"memory/out-of-bounds", "memory/misaligned", "memory/null-pointer", "memory/uninitialized-read"})


def claim_on_float_index(finding: Finding, event: Event, indexed: Callable[[], Collection[Location]]) -> Finding:
    """Return the finding of an access; an information if its index comes from a loaded floating-point number.

    ``indexed`` returns :func:`indexed_accesses`.
    """
    if finding.severity is not Severity.ERROR or event.rule not in _RULES or event.location not in indexed():
        return finding
    message = f"{finding.message}; the index comes from a floating-point value, whose range the program does not show"
    return replace(finding, severity=Severity.INFORMATION, message=message)


def indexed_accesses(launch: Request) -> frozenset[Location]:
    """Return the places of the accesses of a launch whose index comes from a loaded floating-point number."""
    # Delayed, as all of the emulator: see `case_runner`.
    from gpuemu_lsp.engine.emulator.analysis.dependence.kernel import dependences
    from gpuemu_lsp.engine.emulator.analysis.dependence.sources import OtherSource

    accesses = dependences(launch.artifact.ptx, launch.entry).accesses
    return frozenset(
        location
        for (location, _), by_opcode in accesses.items()
        if any(OtherSource.FLOAT_INDEX in dependence.address for dependence in by_opcode.values())
    )
