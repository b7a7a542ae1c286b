"""The methods of the Model Context Protocol, in both forms."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.mcp.call import CANCELLED, Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.connection import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Connection,
    RequestError,
)
from gpuemu_lsp.mcp.long_results import cut
from gpuemu_lsp.mcp.resources import Resources
from gpuemu_lsp.mcp.schemas import problems
from gpuemu_lsp.mcp.session import AgentSession

STATELESS = ("2026-07-28",)
"""Revisions in which each request states its revision in ``_meta``."""
WITH_HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
UNSUPPORTED_VERSION = -32022

_META = "io.modelcontextprotocol"
_SERVER: dict[str, Json] = {
    "name": "gpuemu",
    "title": "gpuemu: GPU kernels checked without a GPU",
    "version": __version__,
}
_INSTRUCTIONS = (
    "Finds silently wrong GPU kernels (CUDA C++, PTX, Triton, pyptx) by running them in an emulator; no GPU is needed. "
    "After each edit of a kernel call check and read its verdict: clean, wrong, unsafe or not-checked. Only clean is a "
    "pass, and did_not_run says what it leaves open: without a reference, its numbers. For a finding call explain with "
    "its id, change the kernel, and call reproduce. Tolerances, references and cases are not yours to change."
)


class Protocol:
    """Answers the requests of one client."""

    def __init__(
        self, connection: Connection, session: AgentSession, tools: Sequence[Tool], resources: Resources
    ) -> None:
        self._connection = connection
        self._session = session
        self._tools = {tool.name: tool for tool in tools}
        self._resources = resources
        self._calls: dict[str | int, ToolCall] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._methods: Mapping[str, Callable[[Mapping[str, Json]], dict[str, Json]]] = {
            "initialize": _initialized,
            "server/discover": lambda params: _DISCOVERED,
            "ping": lambda params: {},
            "tools/list": lambda params: {"tools": [_described(tool) for tool in self._tools.values()]},
            "resources/list": lambda params: {"resources": self._resources.listed()},
            "resources/templates/list": lambda params: {"resourceTemplates": self._resources.templates()},
            "resources/read": self._read,
        }

    def receive(self, message: Mapping[str, Json]) -> None:
        """Handle a message of the client."""
        method, identity, params = message.get("method"), message.get("id"), message.get("params") or {}
        if not isinstance(method, str):
            if "result" not in message and "error" not in message:  # answers: this server asks nothing
                self._connection.fail(None, RequestError(INVALID_REQUEST, "a message needs a method"))
            return
        if "id" not in message:
            if method == "notifications/cancelled" and isinstance(params, dict):
                self._cancel(params.get("requestId"))
            return
        if not isinstance(identity, str | int) or isinstance(identity, bool):
            self._connection.fail(None, RequestError(INVALID_REQUEST, "an id is a string or a whole number"))
            return
        try:
            if not isinstance(params, dict):
                raise RequestError(INVALID_PARAMS, "params must be an object")
            stateless = _is_stateless(params)
            if method == "tools/call":
                self._begin(identity, params, stateless)
            elif method in self._methods:
                self._connection.answer(identity, _completed(method, self._methods[method](params), stateless))
            else:
                raise RequestError(METHOD_NOT_FOUND, f"this server has no method {method!r}")
        except RequestError as error:
            self._connection.fail(identity, error)

    def close(self) -> None:
        """End all calls, and wait for their threads."""
        with self._lock:
            calls, threads = tuple(self._calls.values()), tuple(self._threads)
        for call in calls:
            call.end("the server ends")
        for thread in threads:
            thread.join(timeout=2.0)

    def _cancel(self, identity: Json) -> None:
        call = self._calls.get(identity) if isinstance(identity, str | int) else None
        if call is not None:
            call.end(CANCELLED)

    def _read(self, params: Mapping[str, Json]) -> dict[str, Json]:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RequestError(INVALID_PARAMS, "resources/read needs a uri")
        return {"contents": [self._resources.read(uri)]}

    def _begin(self, identity: str | int, params: Mapping[str, Json], stateless: bool) -> None:
        """Start the thread of a tool call."""
        name, arguments, meta = params.get("name"), params.get("arguments") or {}, params.get("_meta")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise RequestError(INVALID_PARAMS, f"there is no tool {name!r}; there are: {', '.join(self._tools)}")
        wrong = list(problems(tool.arguments, arguments))
        token = meta.get("progressToken") if isinstance(meta, dict) else None

        def progress(done: float, total: float | None, message: str) -> None:
            values: dict[str, Json] = {"progressToken": token, "progress": done, "message": message}
            if token is not None:
                self._connection.notify("notifications/progress", values | ({} if total is None else {"total": total}))

        call = ToolCall(self._session, arguments if isinstance(arguments, dict) else {}, progress)

        def run() -> None:
            if wrong:
                result = _error(f"{tool.name}: {'; '.join(wrong)}.")
            else:
                result = _outcome(tool, call)
            with self._lock:
                del self._calls[identity]
                self._threads.discard(threading.current_thread())
            if call.reason != CANCELLED:  # a cancelled request has no answer
                self._connection.answer(identity, _completed("tools/call", result, stateless))

        thread = threading.Thread(target=run, name=f"gpuemu-{tool.name}", daemon=True)
        with self._lock:
            if identity in self._calls:
                raise RequestError(INVALID_REQUEST, f"request {identity!r} is still running")
            self._calls[identity] = call
            self._threads.add(thread)
        thread.start()


def _is_stateless(params: Mapping[str, Json]) -> bool:
    """Return whether a request states its revision itself.

    Raises
    ------
    RequestError
        If it is a revision that this server does not speak.
    """
    meta = params.get("_meta")
    version = meta.get(f"{_META}/protocolVersion") if isinstance(meta, dict) else None
    if version is None:
        return False
    if version not in STATELESS:
        data: dict[str, Json] = {"supported": list(STATELESS), "requested": version}
        raise RequestError(UNSUPPORTED_VERSION, f"protocol version {version} is not supported", data)
    return True


def _capabilities() -> dict[str, Json]:
    return {"tools": {"listChanged": False}, "resources": {"listChanged": False, "subscribe": False}}


_DISCOVERED: dict[str, Json] = {
    "supportedVersions": list(STATELESS),
    "capabilities": _capabilities(),
    "instructions": _INSTRUCTIONS,
}


def _initialized(params: Mapping[str, Json]) -> dict[str, Json]:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": version if version in WITH_HANDSHAKE else WITH_HANDSHAKE[-1],
        "capabilities": _capabilities(),
        "serverInfo": _SERVER,
        "instructions": _INSTRUCTIONS,
    }


def _completed(method: str, result: dict[str, Json], stateless: bool) -> dict[str, Json]:
    """Return a result with what the revision of its request adds."""
    if not stateless:
        return result
    cached: dict[str, Json] = {} if method in ("tools/call", "ping") else {"ttlMs": 0, "cacheScope": "private"}
    return {**result, **cached, "resultType": "complete", "_meta": {f"{_META}/serverInfo": _SERVER}}


def _described(tool: Tool) -> Json:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.arguments,
        "outputSchema": tool.output,
        "annotations": {"readOnlyHint": not tool.writes, "destructiveHint": False, "openWorldHint": False},
    }


def _outcome(tool: Tool, call: ToolCall) -> dict[str, Json]:
    """Return the result of a tool, or what went wrong as text, which the model of the client reads."""
    try:
        call.session.enter_folder()
    except OSError as error:
        gone = f"the folder in which this server was started cannot be used: {call.session.folder}: {error.strerror}"
        return _error(f"{tool.name}: {gone}. Make it again, or start the server in another one.")
    try:
        result = cut(tool.run(call), call.session.keep)
    except ToolError as error:
        return _error(str(error))
    except Exception as error:  # a bug must not look like a verdict, nor end the server
        traceback.print_exc(file=sys.stderr)
        kind = type(error).__name__
        return _error(f"Internal error in {tool.name}, a bug in gpuemu-lsp: {kind}: {error}. Nothing was decided.")
    text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": result, "isError": False}


def _error(message: str) -> dict[str, Json]:
    return {"content": [{"type": "text", "text": message}], "isError": True}
