"""Builds the server from its parts and runs it over standard input and output."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.jobs.functions import FUNCTIONS, PRELOAD, WARM_UP
from gpuemu_lsp.engine.workers import Limits, Pool
from gpuemu_lsp.engine.workers.system import return_freed_memory
from gpuemu_lsp.server.checks.document_sync import Editing
from gpuemu_lsp.server.checks.minimiser import Minimiser
from gpuemu_lsp.server.checks.queue import Checker
from gpuemu_lsp.server.checks.scheduler import Batch
from gpuemu_lsp.server.checks.stored_failures import Failures
from gpuemu_lsp.server.client.logs import configure
from gpuemu_lsp.server.client.progress import ProgressBars
from gpuemu_lsp.server.client.protocol import Protocol, Server
from gpuemu_lsp.server.client.refresh import Refresher
from gpuemu_lsp.server.client.status import Status
from gpuemu_lsp.server.code_actions.resolver import Actions
from gpuemu_lsp.server.debug_info import debug_info
from gpuemu_lsp.server.diagnostics.publisher import Publisher
from gpuemu_lsp.server.diagnostics.sources import Diagnostics
from gpuemu_lsp.server.features import (
    artifact,
    code_action,
    code_lens,
    commands,
    completion,
    folders,
    hover,
    inlay_hint,
    lifecycle,
    links,
    text_sync,
    watched_files,
)
from gpuemu_lsp.server.features import configuration as config_feature
from gpuemu_lsp.server.features import failures as failures_feature
from gpuemu_lsp.server.features import tests as tests_feature
from gpuemu_lsp.server.features.configuration import Configuration
from gpuemu_lsp.server.jobs import Tasks
from gpuemu_lsp.server.observers import Observers
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.test_explorer.runs import TestRuns
from gpuemu_lsp.server.workspace.file_watcher import FileWatcher
from gpuemu_lsp.server.workspace.settings import Settings
from gpuemu_lsp.server.workspace.watched_folders import Surroundings

_WATCHER_SECONDS = 0.5
_log = logging.getLogger(__name__)


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
    bars = ProgressBars(server)
    lenses = Refresher(server.workspace_code_lens_refresh)

    def settled(batch: Batch, by_itself: bool) -> None:
        lenses.refresh()
        surroundings.look()
        _trace(server, f"{batch.key.kind} of {batch.key.path} {'ended' if by_itself else 'given up'}")
        if by_itself and batch.key.kind == "check":
            root = batch.parts[0].request.options.store_root if batch.parts else None
            if root is not None:
                tasks.background(failures.refresh(root))
                names = [part.request.spec.name for part in batch.parts if part.request.registered]
                tasks.background(refresh_history(root, names))
            explorer.refresh([batch.key.path])

    async def refresh_history(root: str, kernels: list[str]) -> None:
        await session.history.refresh(root, kernels)
        lenses.refresh()

    def failures_changed(root: str) -> None:
        failures_feature.notify_changed(server)
        explorer.refresh(path for path in session.files() if Path(path).is_relative_to(root))

    def settings_changed(old: Settings, new: Settings) -> None:
        if (old.log_file, old.log_level) != (new.log_file, new.log_level):
            trouble = configure(new.log_level, new.log_file)
            if trouble is not None:
                _log.warning("%s", trouble)
        if old.jobs != new.jobs:
            pool.resize(new.jobs or _workers())
        status.wants(new.executor)
        lenses.refresh()

    observers = Observers(status, bars, lambda batch: checker.scheduler.cancel([batch.key]), settled)
    tasks = Tasks(pool, observers.task_begun, observers.task_ended)
    session = Session(publisher, diagnostics, tasks)
    checker = Checker(session, pool, observers)
    editing = Editing(session, checker)
    failures = Failures(tasks, failures_changed)
    explorer = tests_feature.Explorer(server, session, failures)
    observers.runs = runs = TestRuns(session, checker, server.protocol.notify, explorer.tests, lambda: explorer.asked)
    minimiser = Minimiser(session, checker, lambda text: _tell(server, text), failures.refresh)

    def info() -> str:
        return debug_info(session, checker, status, bars, server.protocol.open_handlers)

    watcher = FileWatcher(editing.touched)
    surroundings = Surroundings(session, watcher)
    configuration = Configuration(server, session, settings_changed)

    parts = lifecycle.Parts(session, checker, editing, status, bars, lenses, configuration, watcher, surroundings, runs)
    lifecycle.register(server, parts)
    server.ended = lambda: watcher.join(_WATCHER_SECONDS)
    config_feature.register(server, session, configuration)
    folders.register(server, editing, surroundings.look)
    text_sync.register(server, editing)
    watched_files.register(server, editing)
    commands.register(server, session, checker, minimiser, info)
    hover.register(server, session)
    code_lens.register(server, session)
    code_action.register(server, session, Actions(server, session))
    inlay_hint.register(server, session)
    links.register(server, session)
    completion.register(server, session)
    failures_feature.register(server, session, failures)
    tests_feature.register(server, session, failures, explorer, runs)
    artifact.register(server, session)
    return server


def serve(tcp: tuple[str, int] | None = None, ws: tuple[str, int] | None = None) -> int:
    """Speak LSP until the client says exit or goes away; return the exit code.

    Parameters
    ----------
    tcp, ws
        Where to wait for one client, in place of standard input and output. Loopback only: whoever connects can have
        files of this user compiled and scripts run.
    """
    configure("warning", None)
    return_freed_memory()
    with Pool(FUNCTIONS, size=_workers(), limits=Limits(), preload=PRELOAD, warm_up=WARM_UP) as pool:
        pool.start()
        server = create_server(pool)
        if tcp is not None:
            server.start_tcp(*tcp)
        elif ws is not None:
            server.start_ws(*ws)
        else:
            server.start_io()
        server.ended()
    return 0 if server.protocol.shut_down else 1


def _trace(server: Server, message: str) -> None:
    if server.protocol.trace != types.TraceValue.Off:
        server.log_trace(types.LogTraceParams(message))


def _tell(server: Server, text: str) -> None:
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))


def _workers() -> int:
    """Return how many checks may run at a time; one more than one, so that typing need not wait for a long check."""
    return max(2, os.cpu_count() or 2)
