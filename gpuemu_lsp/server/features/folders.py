"""workspace/didChangeWorkspaceFolders: what belongs to a folder comes and goes with it."""

from __future__ import annotations

from collections.abc import Callable

from lsprotocol import types

from gpuemu_lsp.server.checks.document_sync import Editing
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.uris import path_of


def register(server: Server, editing: Editing, changed: Callable[[], None]) -> None:
    """Add the handler; ``changed`` is called when the folders are others."""

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def did_change_workspace_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        removed = [path for folder in params.event.removed if (path := path_of(folder.uri))]
        added = [path for folder in params.event.added if (path := path_of(folder.uri))]
        editing.folders_changed(added, removed)
        changed()
