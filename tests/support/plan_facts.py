"""Questions about the facts of a plan whose launch is read from host code."""

from __future__ import annotations

from gpuemu_lsp.engine.plan.facts import PlanOrigin, Source
from gpuemu_lsp.engine.plan.model import Plan


def is_read(plan: Plan) -> bool:
    return plan.facts.origin is PlanOrigin.HOST_CODE


def unused(plan: Plan) -> set[str]:
    """Outputs of which the program need not read every element."""
    return {name for name, buffer in plan.facts.buffers.items() if buffer.use.source is Source.ASSUMED}


def of_any_value(plan: Plan) -> set[str]:
    return {name for name, size in plan.facts.sizes.items() if size.every}


def is_selected(plan: Plan) -> bool:
    return plan.facts.path.selected.source is not Source.ASSUMED


def has_open_lengths(plan: Plan) -> bool:
    return plan.facts.relations.source is Source.ASSUMED


def assumed_lengths(plan: Plan) -> dict[str, str]:
    buffers = plan.facts.buffers.items()
    return {name: str(buffer.length) for name, buffer in buffers if buffer.length is not None}
