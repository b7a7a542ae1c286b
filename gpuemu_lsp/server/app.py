"""Builds the server from its parts and runs it over standard input and output."""

from __future__ import annotations

import logging
import os
import sys

from lsprotocol import types

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.campaign.jobs import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.workers import Limits, Pool
from gpuemu_lsp.server.diagnostics import Diagnostics
from gpuemu_lsp.server.features import code_lens, commands, completion, hover, lifecycle, text_sync, watched_files
from gpuemu_lsp.server.progress import ProgressBars
from gpuemu_lsp.server.protocol import Protocol, Server
from gpuemu_lsp.server.publish import Publisher
from gpuemu_lsp.server.scheduler import Batch
from gpuemu_lsp.server.session import Session, Watcher
from gpuemu_lsp.server.status import Status


def create_server(pool: Pool) -> Server:
    """Return a server whose every part is its own; nothing is global."""
    server = Server(
        "gpuemu-lsp",
        __version__,
        text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
        protocol_cls=Protocol,
    )
    diagnostics = Diagnostics()
    publisher = Publisher(diagnostics, {}, server.text_document_publish_diagnostics)
    status = Status(pool, server.protocol.notify)
    bars = ProgressBars(server, lambda batch: session.scheduler.cancel([batch.key]))
    lenses = code_lens.Refresher(server)

    def begun(batch: Batch) -> None:
        status.begun()
        bars.follow(batch)

    def ended(batch: Batch) -> None:
        status.ended()
        lenses.refresh()

    session = Session(pool, publisher, diagnostics, Watcher(begun, ended))
    lifecycle.register(server, session, status, bars, lenses)
    text_sync.register(server, session)
    watched_files.register(server, session)
    commands.register(server, session)
    hover.register(server, session)
    code_lens.register(server, session)
    completion.register(server, session)
    return server


def serve() -> int:
    """Speak LSP over standard input and output until the client says exit or goes away; return the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with Pool(FUNCTIONS, size=_workers(), limits=Limits(), preload=PRELOAD) as pool:
        pool.start()
        server = create_server(pool)
        server.start_io()
    return 0 if server.protocol.shut_down else 1


def _workers() -> int:
    """Return how many checks may run at a time; one more than one, so that typing need not wait for a long check."""
    return max(2, os.cpu_count() or 2)
