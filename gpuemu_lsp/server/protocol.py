"""pygls as this server needs it: a shutdown that cannot fail, and errors of ours that never pop up at the user."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

SCHEME = "gpuemu"
"""Of the URIs of virtual documents."""

_log = logging.getLogger(__name__)


class Protocol(LanguageServerProtocol):
    """pygls 2.1.1 walks its table of open requests at shutdown while their endings remove themselves from it."""

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Say also which virtual documents there are; pygls does not know of them yet (LSP 3.18)."""
        result = yield from super().lsp_initialize(params)
        if result.capabilities.workspace is not None:
            result.capabilities.workspace.text_document_content = types.TextDocumentContentOptions(schemes=[SCHEME])
        return result

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        """Run our handler, give up every other open request, and answer."""
        handler = self.fm.features.get(types.SHUTDOWN)
        if handler is not None:
            yield handler, args, None
        current = self.msg_id
        for identity, future in list(self._request_futures.items()):
            if identity != current and not future.done():
                future.cancel()
        self._shutdown = True

    @property
    def shut_down(self) -> bool:
        """Whether the client has said goodbye properly."""
        return self._shutdown


class Server(LanguageServer):
    """The language server as pygls knows it."""

    protocol: Protocol
    ended: Callable[[], None]
    """To be called when the client is gone, however it went."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log; a message box per keystroke would help nobody."""
        _log.error("%s: %s", getattr(source, "__name__", source), error)
