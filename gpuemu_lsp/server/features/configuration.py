"""workspace/didChangeConfiguration and workspace/configuration: settings, also while the server runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.workspace.settings import SECTION, Settings, plain, read

_log = logging.getLogger(__name__)


class Configuration:
    """Takes settings in, wherever they come from; ``changed`` is called with what holds now."""

    def __init__(self, server: Server, session: Session, changed: Callable[[Settings, Settings], None]) -> None:
        self._server = server
        self._session = session
        self._changed = changed

    def take(self, given: Any, starting: bool = False) -> None:
        """Put settings in force; what cannot be used is told, and its default holds."""
        old = self._session.settings
        new, problems = read(old, given, starting)
        for problem in problems:
            _log.warning("%s", problem)
            if not starting:
                self._server.window_log_message(types.LogMessageParams(types.MessageType.Warning, problem))
        self._session.settings = new
        if new != old or starting:
            self._changed(old, new)

    async def ask(self) -> None:
        """Ask the client for its settings, if it has any."""
        if not self.can_ask:
            return
        items = [types.ConfigurationItem(section=SECTION)]
        try:
            answer = await self._server.workspace_configuration_async(types.ConfigurationParams(items))
        except JsonRpcException as error:
            _log.warning("the client's configuration could not be had: %s", error)
            return
        section = plain(answer[0]) if answer else None
        if isinstance(section, dict) and section:
            self.take(section)

    @property
    def can_ask(self) -> bool:
        """Whether the client answers ``workspace/configuration``."""
        return bool(get_capability(self._server.client_capabilities, "workspace.configuration", False))

    def subscribe(self) -> None:
        """Ask to be told of changes, where the client wants to be asked."""
        name = "workspace.did_change_configuration.dynamic_registration"
        if get_capability(self._server.client_capabilities, name, False):
            options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
            registration = types.Registration("gpuemu-settings", types.WORKSPACE_DID_CHANGE_CONFIGURATION, options)
            self._server.client_register_capability(types.RegistrationParams([registration]))


def register(server: Server, session: Session, configuration: Configuration) -> None:
    """Add the handler."""

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        given = plain(params.settings)
        if configuration.can_ask and not (isinstance(given, dict) and given.get(SECTION)):
            session.tasks.background(configuration.ask())
        else:
            configuration.take(given)
