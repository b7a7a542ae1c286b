"""``gpuemu/debugAdapter``: a debug adapter for the client, in this server."""

from __future__ import annotations

from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.debug_sessions import DebugSessions
from gpuemu_lsp.server.handlers import request
from gpuemu_lsp.server.services import Services

DEBUG_ADAPTER = "gpuemu/debugAdapter"


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""
    sessions = DebugSessions(services.session.jobs.pool)

    @request(server, DEBUG_ADAPTER)
    def debug_adapter(_: Any) -> dict[str, str]:
        if not services.session.settings.trusted:
            raise JsonRpcInvalidParams("a case is executed when it is debugged, and this folder is not trusted")
        return {"socket": sessions.open()}
