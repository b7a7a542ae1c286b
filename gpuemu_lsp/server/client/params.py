"""The parameters of requests that are not LSP's own: plain JSON that nothing has looked at yet."""

from __future__ import annotations

from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.server.workspace.settings import plain


def asked(params: Any) -> dict[str, Any]:
    """Return a request's parameters; a request may have none.

    Raises
    ------
    JsonRpcInvalidParams
        If they are no object.
    """
    given = plain(params)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise JsonRpcInvalidParams("the parameters of this request must be an object")
    return given


def document_uri(given: dict[str, Any]) -> str | None:
    """Return ``textDocument.uri``, None where there is none."""
    document = given.get("textDocument")
    uri = document.get("uri") if isinstance(document, dict) else None
    return uri if isinstance(uri, str) else None
