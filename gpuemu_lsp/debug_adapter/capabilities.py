"""What the adapter can do, as the answer to ``initialize``."""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.rules import RULES

_AT_RUN_TIME: Final = ("memory", "sync", "numeric")
"""The groups of the rules whose findings are moments of a run."""


def _filters() -> list[Json]:
    """Return the exception filters: the finding of the case, and every rule of a run."""
    finding: Json = {
        "filter": "findings",
        "label": "The finding",
        "description": "Stop where the case fails, when going on and when going back.",
        "default": True,
    }
    rules: list[Json] = [
        {"filter": name, "label": name, "description": rule.summary, "default": False}
        for name, rule in RULES.items()
        if name.partition("/")[0] in _AT_RUN_TIME
    ]
    return [finding, *rules]


CAPABILITIES: Final[dict[str, Json]] = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsDataBreakpoints": True,
    "supportsBreakpointLocationsRequest": True,
    "supportsStepBack": True,
    "supportsRestartFrame": True,
    "supportsSteppingGranularity": True,
    "supportsEvaluateForHovers": True,
    "supportsCompletionsRequest": True,
    "supportsClipboardContext": True,
    "supportsExceptionInfoRequest": True,
    "supportsDisassembleRequest": True,
    "supportsReadMemoryRequest": True,
    "supportsDelayedStackTraceLoading": True,
    "supportsTerminateRequest": True,
    "supportsCancelRequest": True,
    "exceptionBreakpointFilters": _filters(),
}
