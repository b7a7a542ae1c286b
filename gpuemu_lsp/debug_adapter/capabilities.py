"""What the adapter can do, as the answer to ``initialize``."""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.findings import Json

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
    "exceptionBreakpointFilters": [
        {
            "filter": "findings",
            "label": "The finding",
            "description": "Stop where the case fails, when going on and when going back.",
            "default": True,
        }
    ],
}
