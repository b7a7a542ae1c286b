"""workspace/didChangeWatchedFiles: changes made outside the editor, where the client offers to watch."""

from __future__ import annotations

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.server.checks.document_sync import Editing
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.uris import path_of

_GLOBS = ("**/gpuemu.toml", "**/*.{cu,cuh,h,hpp}", "**/*.py")


def register(server: Server, editing: Editing) -> None:
    """Add the handler."""

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(params: types.DidChangeWatchedFilesParams) -> None:
        paths = [path for change in params.changes if (path := path_of(change.uri)) and "/.gpuemu/" not in path]
        if paths:
            editing.touched(paths)


def ask(server: Server) -> bool:
    """Register the watchers, if the client lets a server do so; say whether it does."""
    name = "workspace.did_change_watched_files.dynamic_registration"
    if not get_capability(server.client_capabilities, name, False):
        return False
    options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(glob) for glob in _GLOBS])
    registration = types.Registration("gpuemu-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
    server.client_register_capability(types.RegistrationParams([registration]))
    return True
