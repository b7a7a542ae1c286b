"""workspace/didChangeWatchedFiles: files changed outside the editor, for clients that support watchers."""

from __future__ import annotations

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import notification
from gpuemu_lsp.server.services import Services

_GLOBS = ("**/gpuemu.toml", "**/*.{cu,cuh,h,hpp}", "**/*.py")


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""

    @notification(server, types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(params: types.DidChangeWatchedFilesParams) -> None:
        paths = [path for change in params.changes if (path := path_from_uri(change.uri)) and "/.gpuemu/" not in path]
        if paths:
            services.sync.changed_on_disk(paths)


def register_watchers(server: GpuemuServer) -> bool:
    """Register file watchers with the client; return whether it supports their dynamic registration."""
    name = "workspace.did_change_watched_files.dynamic_registration"
    if not get_capability(server.client_capabilities, name, False):
        return False
    options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(glob) for glob in _GLOBS])
    registration = types.Registration("gpuemu-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
    server.client_register_capability(types.RegistrationParams([registration]))
    return True
