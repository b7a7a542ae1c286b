"""Builds the server from its services and features."""

from __future__ import annotations

from collections.abc import Callable

from lsprotocol import types

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.server.client.protocol import GpuemuProtocol, GpuemuServer
from gpuemu_lsp.server.features import (
    artifact,
    code_action,
    code_lens,
    commands,
    completion,
    debug_adapter,
    failures,
    hover,
    inlay_hint,
    launches,
    lifecycle,
    links,
    notebook_sync,
    references,
    symbols,
    tests,
    text_sync,
    watched_files,
    workspace,
)
from gpuemu_lsp.server.services import Services, build_services

_FEATURES: tuple[Callable[[GpuemuServer, Services], None], ...] = (
    lifecycle.register,
    workspace.register,
    text_sync.register,
    notebook_sync.register,
    watched_files.register,
    commands.register,
    hover.register,
    code_lens.register,
    code_action.register,
    inlay_hint.register,
    links.register,
    references.register,
    symbols.register,
    completion.register,
    failures.register,
    launches.register,
    debug_adapter.register,
    tests.register,
    artifact.register,
)


def create_server(pool: Pool) -> tuple[GpuemuServer, Services]:
    """Return a server and its services; servers in one process share nothing but the pool."""
    server = GpuemuServer(
        "gpuemu-lsp",
        __version__,
        text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
        notebook_document_sync=notebook_sync.SYNCHRONISED,
        protocol_cls=GpuemuProtocol,
    )
    services = build_services(server, pool)
    for register in _FEATURES:
        register(server, services)
    return server, services
