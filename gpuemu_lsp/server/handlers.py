"""Registration of handlers, by what they may do; :mod:`gpuemu_lsp.server` explains the contract.

===========================  ==================================================================================
``notification``             synchronous: changes state and enqueues work; returns within a few milliseconds
``request``                  synchronous: answers from the session's state
``background_request``       coroutine: awaits the parser thread or a worker; other handlers run meanwhile
``background_notification``  coroutine: awaits the client (``initialized`` only)
``command``                  ``workspace/executeCommand``, as ``request``
``background_command``       ``workspace/executeCommand``, as ``background_request``
===========================  ==================================================================================

Requests about a cell of a notebook reach their handler as requests about its document, and are answered about the cell.
The distinction is one of types: a coroutine function given to a synchronous kind, or the reverse, is refused when the
server is built.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from gpuemu_lsp.server.client.protocol import GpuemuServer

_P = TypeVar("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])


def notification(
    server: GpuemuServer, method: str, options: Any = None
) -> Callable[[Callable[[_P], None]], Callable[[_P], None]]:
    """Register a synchronous handler that changes state and enqueues work."""
    return lambda handler: _sync(server.feature(method, options), handler)


def background_notification(
    server: GpuemuServer, method: str, options: Any = None
) -> Callable[[Callable[[_P], Awaitable[None]]], Callable[[_P], Awaitable[None]]]:
    """Register a coroutine that awaits a response of the client. Later notifications do not wait for it."""
    return lambda handler: _coroutine(server.feature(method, options), handler)


def request(
    server: GpuemuServer, method: str, options: Any = None
) -> Callable[[Callable[[_P], _R]], Callable[[_P], _R]]:
    """Register a synchronous handler that answers from the session's state."""
    register = server.feature(method, options)
    return lambda handler: _sync(lambda checked: register(_of_cells(server, checked)), handler)


def background_request(
    server: GpuemuServer, method: str, options: Any = None
) -> Callable[[Callable[[_P], Awaitable[_R]]], Callable[[_P], Awaitable[_R]]]:
    """Register a coroutine that awaits the parser thread, a worker or the client."""
    register = server.feature(method, options)
    return lambda handler: _coroutine(lambda checked: register(_background_of_cells(server, checked)), handler)


def command(server: GpuemuServer, name: str) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Register a command that answers from the session's state."""
    return lambda handler: _sync(server.command(name), handler)


def background_command(
    server: GpuemuServer, name: str
) -> Callable[[Callable[..., Awaitable[_R]]], Callable[..., Awaitable[_R]]]:
    """Register a command that awaits the parser thread or a worker."""
    return lambda handler: _coroutine(server.command(name), handler)


def _of_cells(server: GpuemuServer, handler: Callable[[_P], _R]) -> Callable[[_P], _R]:
    """Return a handler that gets the document of a cell in place of the cell, and answers about the cell."""

    @functools.wraps(handler)
    def translated(params: _P) -> _R:
        return server.cells.to_client(params, handler(server.cells.to_server(params)))

    return translated


def _background_of_cells(server: GpuemuServer, handler: Callable[[_P], Awaitable[_R]]) -> Callable[[_P], Awaitable[_R]]:
    """Return a coroutine as :func:`_of_cells` returns a handler."""

    @functools.wraps(handler)
    async def translated(params: _P) -> _R:
        return server.cells.to_client(params, await handler(server.cells.to_server(params)))

    return translated


def _sync(register: Callable[[_F], Any], handler: _F) -> _F:
    if inspect.iscoroutinefunction(handler):
        raise TypeError(f"{handler.__name__} is a coroutine: register it as a background request")
    register(handler)
    return handler


def _coroutine(register: Callable[[_F], Any], handler: _F) -> _F:
    if not inspect.iscoroutinefunction(handler):
        raise TypeError(f"{handler.__name__} is not a coroutine: it would block the event loop")
    register(handler)
    return handler
