"""initialize, initialized, shutdown, and ``gpuemu/waitForIdle``, which makes tests and scripts deterministic."""

from __future__ import annotations

import gc
import os
import platform
import sys
from dataclasses import replace
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import to_fs_path

from gpuemu_lsp import __version__
from gpuemu_lsp.server.client.notifications import RefreshRequester, log_message
from gpuemu_lsp.server.client.params import plain
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import Encoding
from gpuemu_lsp.server.features import diagnostic, watched_files
from gpuemu_lsp.server.handlers import background_notification, background_request, request
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

WAIT_FOR_IDLE = "gpuemu/waitForIdle"
_YOUNG_THRESHOLD = 700
"""New objects before the garbage collector runs; the default of CPython before 3.14."""
_ENCODINGS: dict[str, Encoding] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    session = services.session

    @request(server, types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        services.configuration.update(params.initialization_options or {}, initial=True)
        session.folders = _folders(params)
        encoding = server.workspace.position_encoding
        session.publisher.encoding = _ENCODINGS.get(str(getattr(encoding, "value", encoding)), "utf-16")
        capabilities = params.capabilities
        services.progress.supported = bool(get_capability(capabilities, "window.work_done_progress", False))
        services.refreshers.code_lenses.supported = bool(
            get_capability(capabilities, "workspace.code_lens.refresh_support", False)
        )
        services.refreshers.inlay_hints.supported = bool(
            get_capability(capabilities, "workspace.inlay_hint.refresh_support", False)
        )
        if session.settings.agent is None:
            session.settings = replace(session.settings, agent=_is_agent(params))
        options = plain(params.initialization_options)
        if session.settings.agent and get_capability(capabilities, "text_document.diagnostic", None) is not None:
            diagnostic.register(server, services)
        elif isinstance(options, dict) and options.get("diagnostics") == "pull" and _supports_pull(params):
            diagnostic.register(server, services)
            pulls = RefreshRequester(server.workspace_diagnostic_refresh)
            pulls.supported = True
            session.publisher.request_pull = pulls.refresh

    @background_notification(server, types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        _freeze_startup_objects()
        log_message(server, _started(session))
        services.watched_folders.watcher.enabled = not watched_files.register_watchers(server)
        services.configuration.subscribe()
        services.status.query_versions()
        services.sync.validate_folders()
        services.watched_folders.update()
        await session.parsed_files.run_in_thread(session.projects.read_all, tuple(session.folders))
        for project in session.projects.known():
            if project.config is not None:
                log_message(server, f"Project {project.config}: {len(project.kernels)} kernels.")
        await services.configuration.pull()  # last: a client need not respond

    @request(server, types.SHUTDOWN)
    def shutdown(_: Any) -> None:
        services.runs.close()
        services.scheduler.close()
        session.jobs.close()
        session.parsed_files.close()
        services.watched_folders.watcher.close()
        services.progress.close()

    @background_request(server, WAIT_FOR_IDLE)
    async def wait_for_idle(_: Any) -> None:
        await services.queue.wait_idle()


def _started(session: Session) -> str:
    """Return the first line of the client's log: what was started, and for which folders."""
    folders = ", ".join(session.folders) or "no folder"
    restricted = "" if session.settings.trusted else "; restricted mode: kernels are compiled, but not run"
    python = f"Python {platform.python_version()}, {sys.executable}"
    return f"gpuemu-lsp {__version__} started for {folders} ({python}{restricted})."


def _freeze_startup_objects() -> None:
    """Exclude from garbage collection what imports and converters have allocated, which lives as long as the process.

    Each full collection of it would stop the event loop for 50 ms. Little else is alive, so collecting often is cheap,
    and necessary: futures leave reference cycles, and the default generational heuristic would wait until a quarter of
    the surviving objects are new.
    """
    gc.collect()
    gc.freeze()
    gc.collect()
    gc.set_threshold(_YOUNG_THRESHOLD, 10, 2)


def _is_agent(params: types.InitializeParams) -> bool:
    """Return whether the client is a coding agent, which shows neither progress nor status.

    Every editor offers code actions to its user. Clients of agents do not, although some declare progress, which a few
    servers require.
    """
    return get_capability(params.capabilities, "text_document.code_action", None) is None


def _supports_pull(params: types.InitializeParams) -> bool:
    pulls = get_capability(params.capabilities, "text_document.diagnostic", None) is not None
    return pulls and bool(get_capability(params.capabilities, "workspace.diagnostics.refresh_support", False))


def _folders(params: types.InitializeParams) -> list[str]:
    uris = [folder.uri for folder in params.workspace_folders or ()]
    if not uris and params.root_uri:
        uris = [params.root_uri]
    paths = [path for path in map(to_fs_path, uris) if path]
    return paths or [os.path.normpath(path) for path in (params.root_path,) if path]
