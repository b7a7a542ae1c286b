"""pygls as this server needs it: an answer to every request, a shutdown that cannot fail, no error that pops up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

SCHEME = "gpuemu"
"""Of the URIs of virtual documents."""

_log = logging.getLogger(__name__)


class Protocol(LanguageServerProtocol):
    """What pygls 2.1.1 leaves out.

    Requests that cannot be read or come at a wrong time are answered (pygls drops them, and the client waits for ever);
    at shutdown its table of open requests is not walked while their endings remove themselves from it.
    """

    _initialized = False

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Read a message; absent parameters are none (JSON-RPC 2.0, 4.2)."""
        if "jsonrpc" not in data or "method" not in data:
            return super().structure_message(data)
        data.setdefault("params", {} if data["method"] == types.INITIALIZED else None)
        try:
            return super().structure_message(data)
        except JsonRpcException:
            if data.get("id") is not None:
                message = f"The parameters of {data['method']} cannot be read."
                self._refuse(data["id"], types.ErrorCodes.InvalidParams, message)
            raise

    def handle_message(self, message: Any) -> None:
        """Handle a message that comes at its time; a request that does not is told so."""
        method, identity = getattr(message, "method", None), getattr(message, "id", None)
        if method is None or method == types.EXIT:
            super().handle_message(message)
        elif self._shutdown:
            self._refuse(identity, types.ErrorCodes.InvalidRequest, "The server has been shut down.")
        elif self._initialized is (method == types.INITIALIZE):
            code = types.ErrorCodes.InvalidRequest if self._initialized else types.ErrorCodes.ServerNotInitialized
            self._refuse(identity, code, f"{method} {'a second time' if self._initialized else 'before initialize'}")
        else:
            super().handle_message(message)

    def _execute_handler(self, msg_id: Any, *args: Any, **kwargs: Any) -> None:
        """Run a handler; whatever it was asked by, its future goes with its end.

        pygls forgets those of requests only: each edit and save of a session would leave one behind.
        """
        super()._execute_handler(msg_id, *args, **kwargs)
        future = self._request_futures.get(msg_id)
        if future is not None:
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))

    @property
    def open_handlers(self) -> int:
        """How many requests and notifications, in either direction, have not come to their end."""
        return len(self._request_futures)

    def _refuse(self, identity: Any, code: types.ErrorCodes, message: str) -> None:
        _log.info("refused: %s", message)
        if identity is not None:
            self._send_response(identity, error=types.ResponseError(int(code), message))

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Say also which virtual documents there are; pygls does not know of them yet (LSP 3.18)."""
        self._initialized = True
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
