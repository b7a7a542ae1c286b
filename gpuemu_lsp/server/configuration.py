"""Configuration of the running server: settings from the client, applied to logging and the worker pool."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.server.client.params import plain
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.events import EventBus, ServerEvent, SettingsChanged
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.settings import SECTION, default_workers, read

_log = logging.getLogger(__name__)
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Configuration:
    """Reads settings pushed by the client or pulled from it, and publishes their change."""

    def __init__(self, server: GpuemuServer, session: Session, events: EventBus) -> None:
        self._server = server
        self._session = session
        self._events = events

    def update(self, given: Any, initial: bool = False) -> None:
        """Apply settings; an invalid value is logged, and the setting keeps its default."""
        old = self._session.settings
        new, problems = read(old, plain(given), initial)
        for problem in problems:
            _log.warning("%s", problem)
            if not initial:
                self._server.window_log_message(types.LogMessageParams(types.MessageType.Warning, problem))
        self._session.settings = new
        if new != old or initial:
            self._events.publish(SettingsChanged(old, new))

    async def pull(self) -> None:
        """Request the settings from the client, if it supports that; it need not respond."""
        if not self.can_pull:
            return
        items = [types.ConfigurationItem(section=SECTION)]
        try:
            answer = await self._server.workspace_configuration_async(types.ConfigurationParams(items))
        except JsonRpcException as error:
            _log.warning("workspace/configuration failed: %s", error)
            return
        section = plain(answer[0]) if answer else None
        if isinstance(section, dict) and section:
            self.update(section)

    @property
    def can_pull(self) -> bool:
        """Whether the client supports ``workspace/configuration``."""
        return bool(get_capability(self._server.client_capabilities, "workspace.configuration", False))

    def subscribe(self) -> None:
        """Register for ``workspace/didChangeConfiguration``, where the client supports dynamic registration."""
        name = "workspace.did_change_configuration.dynamic_registration"
        if get_capability(self._server.client_capabilities, name, False):
            options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
            registration = types.Registration("gpuemu-settings", types.WORKSPACE_DID_CHANGE_CONFIGURATION, options)
            self._server.client_register_capability(types.RegistrationParams([registration]))


def apply_settings(pool: Pool, event: ServerEvent) -> None:
    """Apply changed settings to what is global to the process: logging and the number of workers."""
    if not isinstance(event, SettingsChanged):
        return
    old, new = event.old, event.new
    if (old.log_file, old.log_level) != (new.log_file, new.log_level):
        problem = configure_logging(new.log_level, new.log_file)
        if problem is not None:
            _log.warning("%s", problem)
    if old.jobs != new.jobs:
        pool.resize(new.jobs or default_workers())


def configure_logging(level: str, file: str | None) -> str | None:
    """Set log level and destination; return a message if the file cannot be written.

    The default is standard error: standard output belongs to the protocol.
    """
    problem = None
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        try:
            path = Path(file).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            problem = f"The log file {file} cannot be written: {error.strerror or error}."
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(getattr(logging, level.upper()))
    # pygls logs whole messages at its lower levels.
    logging.getLogger("pygls").setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
    return problem
