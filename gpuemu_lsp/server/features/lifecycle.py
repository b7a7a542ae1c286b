"""initialize, initialized, shutdown, and ``gpuemu/waitForIdle``, which makes tests and scripts deterministic."""

from __future__ import annotations

import logging
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.uris import to_fs_path

from gpuemu_lsp.server.features import watched_files
from gpuemu_lsp.server.features.code_lens import Refresher
from gpuemu_lsp.server.positions import Encoding
from gpuemu_lsp.server.progress import ProgressBars
from gpuemu_lsp.server.protocol import Server
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.settings import read
from gpuemu_lsp.server.status import Status

_log = logging.getLogger(__name__)

WAIT_FOR_IDLE = "gpuemu/waitForIdle"
_ENCODINGS: dict[str, Encoding] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}


def register(server: Server, session: Session, status: Status, bars: ProgressBars, lenses: Refresher) -> None:
    """Add the handlers."""

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        session.settings, problems = read(session.settings, params.initialization_options, starting=True)
        for problem in problems:
            _log.warning("%s", problem)
        session.folders = _folders(params)
        encoding = server.workspace.position_encoding
        session.publisher.encoding = _ENCODINGS.get(str(getattr(encoding, "value", encoding)), "utf-16")
        bars.supported = bool(get_capability(params.capabilities, "window.work_done_progress", False))
        lenses.supported = bool(get_capability(params.capabilities, "workspace.code_lens.refresh_support", False))

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        watched_files.ask(server)
        status.ask()
        session.load_folders()

    @server.feature(types.SHUTDOWN)
    def shutdown(_: Any) -> None:
        session.scheduler.close()
        session.tasks.close()
        bars.close()

    @server.feature(WAIT_FOR_IDLE)
    async def wait_for_idle(_: Any) -> None:
        await session.wait_idle()


def _folders(params: types.InitializeParams) -> list[str]:
    uris = [folder.uri for folder in params.workspace_folders or ()]
    if not uris and params.root_uri:
        uris = [params.root_uri]
    return [path for path in map(to_fs_path, uris) if path]
