"""workspace/didChangeConfiguration and didChangeWorkspaceFolders: new settings, added and removed folders."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.server.client.params import plain
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import notification
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.settings import SECTION


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    session, configuration = services.session, services.configuration

    @notification(server, types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        given = plain(params.settings)
        if configuration.can_pull and not (isinstance(given, dict) and given.get(SECTION)):
            session.jobs.background(configuration.pull())
        else:
            configuration.update(given)

    @notification(server, types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def did_change_workspace_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        removed = [path for folder in params.event.removed if (path := path_from_uri(folder.uri))]
        added = [path for folder in params.event.added if (path := path_from_uri(folder.uri))]
        services.sync.folders_changed(added, removed)
        services.watched_folders.update()
