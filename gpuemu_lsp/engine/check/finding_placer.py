"""What a checker saw becomes a finding: on the user's line, with the input that shows it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.check.source_map import SourceMap
from gpuemu_lsp.engine.execution import Event
from gpuemu_lsp.engine.findings import Finding, Json, Place, Related, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make


@dataclass(frozen=True, slots=True)
class FindingFactory:
    """What all findings of one plan share."""

    plan: Plan
    arch: str
    atlas: SourceMap

    def finding(
        self,
        rule: str,
        message: str,
        place: Place,
        case: Case | None = None,
        case_id: str | None = None,
        data: dict[str, Json] | None = None,
        related: tuple[Related, ...] = (),
        severity: Severity | None = None,
    ) -> Finding:
        """Build a finding of this plan, for one case or for none."""
        fields: dict[str, object] = {} if severity is None else {"severity": severity}
        return make(
            rule,
            message,
            place,
            kernel=self.plan.kernel,
            arch=self.arch,
            dtype=self.plan.dtype,
            case=case_id,
            dims=dict(case.dims) if case is not None else {},
            data=data or {},
            related=related,
            **fields,
        )


def event_finding(event: Event, scene: FindingFactory, case: Case, case_id: str) -> Finding:
    """Translate one event."""
    place, related = scene.atlas.place(event.location)
    if event.other is not None:
        other, _ = scene.atlas.place(event.other)
        related = (Related(other, "the other access"), *related)
    message = event.message
    if case.dims:
        message += f" ({', '.join(f'{name} = {size}' for name, size in case.dims.items())})"
    data: dict[str, Json] = {"instruction": event.instruction, "count": event.count, **event.data}
    for key in ("thread", "block"):
        value = getattr(event, key)
        if value is not None:
            data[key] = list(value)
    for key in ("buffer", "offset", "size"):
        value = getattr(event, key)
        if value is not None:
            data[key] = value
    data["grid"], data["launch_block"] = list(case.grid), list(case.block)
    return scene.finding(event.rule, message, place, case, case_id, data, related)
