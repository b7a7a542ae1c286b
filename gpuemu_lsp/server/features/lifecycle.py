"""initialize, initialized, shutdown, and ``gpuemu/waitForIdle``, which makes tests and scripts deterministic."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import to_fs_path

from gpuemu_lsp.server.checks.document_sync import Editing
from gpuemu_lsp.server.checks.queue import Checker
from gpuemu_lsp.server.client.progress import ProgressBars
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.client.refresh import Refresher
from gpuemu_lsp.server.client.status import Status
from gpuemu_lsp.server.documents.positions import Encoding
from gpuemu_lsp.server.features import diagnostic, watched_files
from gpuemu_lsp.server.features.configuration import Configuration
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.test_explorer.runs import TestRuns
from gpuemu_lsp.server.workspace.file_watcher import FileWatcher
from gpuemu_lsp.server.workspace.settings import plain
from gpuemu_lsp.server.workspace.watched_folders import Surroundings

_YOUNG = 700
"""New objects before the collector looks at them; the default of CPython before 3.14."""
WAIT_FOR_IDLE = "gpuemu/waitForIdle"
_ENCODINGS: dict[str, Encoding] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}


@dataclass(frozen=True, slots=True)
class Parts:
    """What begins and ends with a client."""

    session: Session
    checker: Checker
    editing: Editing
    status: Status
    bars: ProgressBars
    lenses: Refresher
    configuration: Configuration
    watcher: FileWatcher
    surroundings: Surroundings
    runs: TestRuns


def register(server: Server, parts: Parts) -> None:
    """Add the handlers."""
    session = parts.session

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        parts.configuration.take(params.initialization_options or {}, starting=True)
        session.folders = _folders(params)
        encoding = server.workspace.position_encoding
        session.publisher.encoding = _ENCODINGS.get(str(getattr(encoding, "value", encoding)), "utf-16")
        parts.bars.supported = bool(get_capability(params.capabilities, "window.work_done_progress", False))
        parts.lenses.supported = bool(get_capability(params.capabilities, "workspace.code_lens.refresh_support", False))
        options = plain(params.initialization_options)
        if isinstance(options, dict) and options.get("diagnostics") == "pull" and _can_refresh(params):
            diagnostic.register(server, session)
            pulls = Refresher(server.workspace_diagnostic_refresh)
            pulls.supported = True
            session.publisher.refresh = pulls.refresh

    @server.feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        # What imports and converters made stays for good: collecting it again would stop the loop for 50 ms each time.
        gc.collect()
        gc.freeze()
        # Futures leave cycles behind. Without the above there is so little to look through that it can be done often;
        # the collector would else wait until a quarter of all that it last found alive is new.
        gc.collect()
        gc.set_threshold(_YOUNG, 10, 2)
        parts.watcher.enabled = not watched_files.ask(server)
        parts.configuration.subscribe()
        parts.status.ask()
        parts.editing.look_at_folders()
        parts.surroundings.look()
        await parts.configuration.ask()  # last: a client need not answer

    @server.feature(types.SHUTDOWN)
    def shutdown(_: Any) -> None:
        parts.runs.close()
        parts.checker.scheduler.close()
        session.tasks.close()
        session.readings.close()
        parts.watcher.close()
        parts.bars.close()

    @server.feature(WAIT_FOR_IDLE)
    async def wait_for_idle(_: Any) -> None:
        await parts.checker.wait_idle()


def _can_refresh(params: types.InitializeParams) -> bool:
    pulls = get_capability(params.capabilities, "text_document.diagnostic", None) is not None
    return pulls and bool(get_capability(params.capabilities, "workspace.diagnostics.refresh_support", False))


def _folders(params: types.InitializeParams) -> list[str]:
    uris = [folder.uri for folder in params.workspace_folders or ()]
    if not uris and params.root_uri:
        uris = [params.root_uri]
    paths = [path for path in map(to_fs_path, uris) if path]
    return paths or [os.path.normpath(path) for path in (params.root_path,) if path]
