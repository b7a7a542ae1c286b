"""workspace/didChangeWorkspaceFolders: added and removed folders with their results and watched files."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import notification
from gpuemu_lsp.server.services import Services


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""

    @notification(server, types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def did_change_workspace_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        removed = [path for folder in params.event.removed if (path := path_from_uri(folder.uri))]
        added = [path for folder in params.event.added if (path := path_from_uri(folder.uri))]
        services.sync.folders_changed(added, removed)
        services.watched_folders.update()
