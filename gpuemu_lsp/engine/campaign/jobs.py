"""The functions that run in workers, as the pool knows them: JSON in, JSON out."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.check.model import CheckEvent, CheckRequest, KernelReport, Stage
from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.workers.wire import from_json, to_json

FUNCTIONS = {"check": "gpuemu_lsp.engine.campaign.jobs:check"}
"""The pool's table."""

PRELOAD = (
    "numpy",
    "ml_dtypes",
    "llvmlite.binding",
    "cupy",
    "gpuemu_lsp.engine.check.pipeline",
    "gpuemu_lsp.engine.emulator",
)
"""What the nursery imports once."""


def check(payload: Json) -> Iterator[Json]:
    """Check one kernel; ``payload`` is a :class:`CheckRequest`."""
    from gpuemu_lsp.engine.check.pipeline import check_kernel

    for event in check_kernel(from_json(CheckRequest, payload)):
        yield encode(event)


def encode(event: CheckEvent) -> Json:
    """Return an event as JSON. A stage keeps its name at the top, where the pool looks for it."""
    if isinstance(event, Stage):
        return {"stage": event.stage, "progress": to_json(event)}
    if isinstance(event, Finding):
        return {"finding": to_json(event)}
    return {"report": to_json(event)}


def decode(value: Json) -> CheckEvent:
    """Return the event :func:`encode` made ``value`` of."""
    assert isinstance(value, dict)
    if "finding" in value:
        return from_json(Finding, value["finding"])
    if "report" in value:
        return from_json(KernelReport, value["report"])
    return from_json(Stage, value["progress"])
