"""Grids that no device launches, at sizes that gpuemu.toml declares. Cases never have such sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuemu_lsp.engine.check.finding_placer import FindingFactory
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.geometry import GridTooLargeError, ImpossibleError, evaluate_plan
from gpuemu_lsp.engine.fuzz.model import LaunchHints
from gpuemu_lsp.engine.fuzz.size_classes import dim_sizes
from gpuemu_lsp.engine.plan.facts import PlanOrigin
from gpuemu_lsp.engine.plan.model import Plan


def grids_too_large(plan: Plan, hints: LaunchHints, findings: FindingFactory) -> Iterator[Finding]:
    """Yield a warning for each dim whose declared maximum, with the least other sizes, has too large a grid."""
    if plan.facts.origin is not PlanOrigin.CONFIGURATION:
        return
    sizes = dim_sizes(plan, hints)
    least = {size.spec.name: size.nearest(size.low) for size in sizes}
    for size in sizes:
        if size.spec.maximum is None:
            continue
        try:
            evaluate_plan(plan, {**least, size.spec.name: size.nearest(size.high)}, None)
        except GridTooLargeError as error:
            message = (
                f"'{plan.kernel}' cannot be launched with {size.spec.name} = {size.high}, which is declared: {error}"
            )
            found = findings.finding("api/failed-launch", message, findings.config_place("launch.grid"))
            yield replace(found, severity=Severity.WARNING)
        except ImpossibleError:
            continue
