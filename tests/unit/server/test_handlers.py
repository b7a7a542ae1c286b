"""Registration refuses handlers of the wrong kind."""

from __future__ import annotations

import pytest
from lsprotocol import types

from gpuemu_lsp.server.client.protocol import GpuemuProtocol, GpuemuServer
from gpuemu_lsp.server.handlers import (
    background_command,
    background_notification,
    background_request,
    command,
    notification,
    request,
)


@pytest.fixture
def server() -> GpuemuServer:
    return GpuemuServer("test", "1", protocol_cls=GpuemuProtocol)


@pytest.mark.parametrize("register", [notification, request, command])
def test_a_synchronous_kind_refuses_a_coroutine(server: GpuemuServer, register):
    async def handler(_):
        pass

    with pytest.raises(TypeError, match="handler is a coroutine"):
        register(server, "gpuemu/test")(handler)


@pytest.mark.parametrize("register", [background_notification, background_request, background_command])
def test_a_background_kind_refuses_a_blocking_function(server: GpuemuServer, register):
    def handler(_):
        pass

    with pytest.raises(TypeError, match="block the event loop"):
        register(server, "gpuemu/test")(handler)


def test_handlers_are_registered_with_their_options(server: GpuemuServer):
    @background_request(server, types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["["]))
    async def completion(_: types.CompletionParams) -> None:
        return None

    @command(server, "gpuemu.test")
    def test(*_) -> None:
        return None

    features = server.protocol.fm
    assert types.TEXT_DOCUMENT_COMPLETION in features.features and "gpuemu.test" in features.commands
    assert features.feature_options[types.TEXT_DOCUMENT_COMPLETION].trigger_characters == ["["]
