"""Parameters of custom requests: unvalidated JSON, which pygls passes as objects."""

from __future__ import annotations

from typing import Any

from pygls.exceptions import JsonRpcInvalidParams


def plain(value: Any) -> Any:
    """Return JSON that pygls has turned into an object as plain dictionaries and lists."""
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def params_object(params: Any) -> dict[str, Any]:
    """Return the parameters of a request, an empty object where it has none.

    Raises
    ------
    JsonRpcInvalidParams
        If the parameters are not an object.
    """
    given = plain(params)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise JsonRpcInvalidParams("the parameters of this request must be an object")
    return given


def document_uri(given: dict[str, Any]) -> str | None:
    """Return ``textDocument.uri``, None where it is missing or not a string."""
    document = given.get("textDocument")
    uri = document.get("uri") if isinstance(document, dict) else None
    return uri if isinstance(uri, str) else None
