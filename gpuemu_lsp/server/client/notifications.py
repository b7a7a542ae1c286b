"""Notifications that mirror events: ``gpuemu/failuresChanged`` and ``$/logTrace``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lsprotocol import types

from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.events import BatchEnded, ServerEvent, StoredFailuresChanged

FAILURES_CHANGED = "gpuemu/failuresChanged"


def notify_failures_changed(notify: Callable[[str, Any], None], event: ServerEvent) -> None:
    """Notify the client that the list of stored failures has changed."""
    if isinstance(event, StoredFailuresChanged):
        notify(FAILURES_CHANGED, {})


def trace_batches(server: GpuemuServer, event: ServerEvent) -> None:
    """Trace the end of every batch, if the client has enabled traces."""
    if isinstance(event, BatchEnded) and server.protocol.trace != types.TraceValue.Off:
        key = event.batch.key
        ended = "ended" if event.completed else "cancelled"
        server.log_trace(types.LogTraceParams(f"{key.kind} of {key.path} {ended}"))


def show_message(server: GpuemuServer, text: str) -> None:
    """Show an information message to the user."""
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
