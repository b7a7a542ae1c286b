"""Builds the server from its services and features, and serves one client."""

from __future__ import annotations

from collections.abc import Callable

from lsprotocol import types

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.jobs.functions import FUNCTIONS, PRELOAD, WARM_UP
from gpuemu_lsp.engine.workers import Limits, Pool
from gpuemu_lsp.engine.workers.system import return_freed_memory
from gpuemu_lsp.server.client.protocol import GpuemuProtocol, GpuemuServer
from gpuemu_lsp.server.configuration import configure_logging
from gpuemu_lsp.server.features import (
    artifact,
    code_action,
    code_lens,
    commands,
    completion,
    configuration,
    failures,
    folders,
    hover,
    inlay_hint,
    lifecycle,
    links,
    references,
    symbols,
    tests,
    text_sync,
    watched_files,
)
from gpuemu_lsp.server.services import Services, build_services
from gpuemu_lsp.server.settings import default_workers

_FEATURES: tuple[Callable[[GpuemuServer, Services], None], ...] = (
    lifecycle.register,
    configuration.register,
    folders.register,
    text_sync.register,
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
    tests.register,
    artifact.register,
)
_WATCHER_SECONDS = 0.5


def create_server(pool: Pool) -> tuple[GpuemuServer, Services]:
    """Return a server and its services; servers in one process share nothing but the pool."""
    server = GpuemuServer(
        "gpuemu-lsp",
        __version__,
        text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
        protocol_cls=GpuemuProtocol,
    )
    services = build_services(server, pool)
    for register in _FEATURES:
        register(server, services)
    return server, services


def serve(tcp: tuple[str, int] | None = None, ws: tuple[str, int] | None = None) -> int:
    """Serve one client until it sends ``exit`` or disconnects; return the exit code.

    Parameters
    ----------
    tcp, ws
        Address to listen on for one client, in place of standard input and output. Loopback only: a client can have
        this user's files compiled and scripts run.
    """
    configure_logging("warning", None)
    return_freed_memory()
    with Pool(FUNCTIONS, size=default_workers(), limits=Limits(), preload=PRELOAD, warm_up=WARM_UP) as pool:
        pool.start()
        server, services = create_server(pool)
        if tcp is not None:
            server.start_tcp(*tcp)
        elif ws is not None:
            server.start_ws(*ws)
        else:
            server.start_io()
        services.watcher.join(_WATCHER_SECONDS)
    return 0 if server.protocol.shut_down else 1
