"""workspace/didChangeConfiguration: new settings, pushed or to be pulled."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.server.client.params import plain
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.handlers import notification
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.settings import SECTION


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""
    session, configuration = services.session, services.configuration

    @notification(server, types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        given = plain(params.settings)
        if configuration.can_pull and not (isinstance(given, dict) and given.get(SECTION)):
            session.jobs.background(configuration.pull())
        else:
            configuration.update(given)
