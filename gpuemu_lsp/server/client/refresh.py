"""Refresh requests: the client is asked to fetch something again, one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from gpuemu_lsp.server.events import BatchEnded, MeasurementsCompared, ServerEvent, SettingsChanged


class RefreshRequester:
    """Sends a refresh request, and one more after its response if another was wanted meanwhile.

    A client that never responds is sent a single request.
    """

    def __init__(self, send: Callable[[None], Future[Any]]) -> None:
        self.supported = False
        self._send = send
        self._in_flight = False
        self._again = False

    def refresh(self) -> None:
        """Send the request, if the client supports it; does not wait for the response."""
        if not self.supported:
            return
        if self._in_flight:
            self._again = True
            return
        self._in_flight = True
        self._send(None).add_done_callback(self._on_response)

    def _on_response(self, _: Future[Any]) -> None:
        self._in_flight = False
        if self._again:
            self._again = False
            self.refresh()


class CodeLensRefresher(RefreshRequester):
    """Requests ``workspace/codeLens/refresh`` when an event may have changed the lenses."""

    def on_event(self, event: ServerEvent) -> None:
        """Refresh after a batch, a comparison of measurements, or a change of settings."""
        if isinstance(event, BatchEnded | MeasurementsCompared | SettingsChanged):
            self.refresh()
