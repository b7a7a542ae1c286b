"""Work-done progress of what lasts: shown late, can be cancelled, always ended."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

_PATIENCE_SECONDS = 0.5
_PERIOD_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Lasting:
    """Something that may last: its title, how much of it is done (of how much), its end, and how to give it up."""

    title: str
    measure: Callable[[], tuple[int, int]]
    ended: asyncio.Event
    cancel: Callable[[], object]


class ProgressBars:
    """One bar per thing that runs longer than a moment."""

    def __init__(self, server: LanguageServer) -> None:
        self.supported = False
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    def follow(self, lasting: Lasting) -> None:
        """Show a bar if it lasts."""
        if self.supported:
            task = asyncio.get_running_loop().create_task(self._follow(lasting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @property
    def count(self) -> int:
        """How many tokens are in use."""
        return len(self._server.work_done_progress.tokens)

    def close(self) -> None:
        """End every bar."""
        for task in self._tasks:
            task.cancel()

    async def _follow(self, lasting: Lasting) -> None:
        if await _ends_within(lasting, _PATIENCE_SECONDS):
            return
        token = f"gpuemu-{next(self._numbers)}"
        bars = self._server.work_done_progress
        try:
            await bars.create_async(token)
        except JsonRpcException:
            return  # the client would not have it
        try:
            bars.begin(token, types.WorkDoneProgressBegin(title=lasting.title, cancellable=True, percentage=0))
            self._stop_on_cancel(token, lasting)
            percentage = 0
            while not await _ends_within(lasting, _PERIOD_SECONDS):
                done, total = lasting.measure()
                message = f"{done}/{total}" if total else None
                percentage = max(percentage, 100 * min(done, total) // total if total else 0)
                bars.report(token, types.WorkDoneProgressReport(message=message, percentage=percentage))
        finally:
            bars.end(token, types.WorkDoneProgressEnd())
            bars.tokens.pop(token, None)  # pygls keeps them for ever

    def _stop_on_cancel(self, token: str, lasting: Lasting) -> None:
        def ended(future: Future[None]) -> None:
            if future.cancelled():
                lasting.cancel()

        self._server.work_done_progress.tokens[token].add_done_callback(ended)


async def _ends_within(lasting: Lasting, seconds: float) -> bool:
    try:
        await asyncio.wait_for(lasting.ended.wait(), seconds)
    except TimeoutError:
        return False
    return True
