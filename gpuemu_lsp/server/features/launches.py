"""``gpuemu/launches``: the launches of recorded runs, and the command ``gpuemu.run``."""

from __future__ import annotations

from typing import Any

from gpuemu_lsp.server.client.params import document_uri, params_object
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.services import Services

LAUNCHES = "gpuemu/launches"


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""

    @background_request(server, LAUNCHES)
    async def launches(params: Any) -> dict[str, Any]:
        uri = document_uri(params_object(params))
        path = path_from_uri(uri) if uri is not None else None
        return {"recordings": await services.programs.launches(path)}
