"""pygls, adapted: every request is answered, shutdown cannot fail, handler errors are only logged."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

from gpuemu_lsp.server.notebooks.translation import CellTranslation

SCHEME = "gpuemu"
"""URI scheme of virtual documents."""

_log = logging.getLogger(__name__)


class GpuemuProtocol(LanguageServerProtocol):
    """Corrections to pygls 2.1.1.

    Requests that cannot be decoded, or arrive before ``initialize`` or after ``shutdown``, are answered with an error;
    pygls drops them, and the client waits for ever. Texts of documents are kept by the session alone. Shutdown iterates
    over a copy of the table of open requests, because their done callbacks remove entries from it.
    """

    _initialized = False

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Decode a message; ``params`` may be omitted (JSON-RPC 2.0, section 4.2)."""
        if "jsonrpc" not in data or "method" not in data:
            return super().structure_message(data)
        data.setdefault("params", {} if data["method"] == types.INITIALIZED else None)
        try:
            return super().structure_message(data)
        except JsonRpcException:
            if data.get("id") is not None:
                message = f"The parameters of {data['method']} cannot be decoded."
                self._refuse(data["id"], types.ErrorCodes.InvalidParams, message)
            raise

    def handle_message(self, message: Any) -> None:
        """Handle a message; answer a request outside the session's lifetime with an error."""
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
        """Run a handler and discard its future when it is done.

        pygls does so for requests only; each notification of a session would leave a future behind.
        """
        super()._execute_handler(msg_id, *args, **kwargs)
        future = self._request_futures.get(msg_id)
        if future is not None:
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))

    @property
    def open_handlers(self) -> int:
        """Number of requests and notifications in progress, of both directions."""
        return len(self._request_futures)

    def _refuse(self, identity: Any, code: types.ErrorCodes, message: str) -> None:
        _log.info("refused: %s", message)
        if identity is not None:
            self._send_response(identity, error=types.ResponseError(int(code), message))

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Add the capability of virtual documents (LSP 3.18), which pygls does not support yet."""
        self._initialized = True
        result = yield from super().lsp_initialize(params)
        if result.capabilities.workspace is not None:
            result.capabilities.workspace.text_document_content = types.TextDocumentContentOptions(schemes=[SCHEME])
        return result

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Generator[Any, Any, None]:
        """Run the registered handler only.

        pygls would keep a copy of the text next to the session's, and split all of it into lines at every edit.
        """
        yield from self._run_registered(types.TEXT_DOCUMENT_DID_OPEN, params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Generator[Any, Any, None]:
        """Run the registered handler only."""
        yield from self._run_registered(types.TEXT_DOCUMENT_DID_CHANGE, params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Generator[Any, Any, None]:
        """Run the registered handler only."""
        yield from self._run_registered(types.TEXT_DOCUMENT_DID_CLOSE, params)

    def _run_registered(self, method: str, params: Any) -> Generator[Any, Any, None]:
        handler = self.fm.features.get(method)
        if handler is not None:
            yield handler, (params,), None

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        """Run the registered handler, cancel every other open request, and answer."""
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
        """Whether the client has requested ``shutdown``; the exit code depends on it."""
        return self._shutdown


class GpuemuServer(LanguageServer):
    """The pygls server with :class:`GpuemuProtocol`."""

    protocol: GpuemuProtocol
    cells: CellTranslation
    """What replaces cells of notebooks in messages; set when the services are built."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log the error; pygls would show a message box, at worst one per keystroke."""
        _log.error("%s: %s", getattr(source, "__name__", source), error)
