"""Work-done progress of a check that lasts: shown late, can be cancelled, always ended."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from gpuemu_lsp.server.scheduler import Batch

_PATIENCE_SECONDS = 0.5
_PERIOD_SECONDS = 0.5


class ProgressBars:
    """One bar per batch that runs longer than a moment."""

    def __init__(self, server: LanguageServer, cancel: Callable[[Batch], object]) -> None:
        self.supported = False
        self._server = server
        self._cancel = cancel
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    def follow(self, batch: Batch) -> None:
        """Show a bar if the batch lasts."""
        if self.supported and batch.key.kind == "check":
            task = asyncio.get_running_loop().create_task(self._follow(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End every bar."""
        for task in self._tasks:
            task.cancel()

    async def _follow(self, batch: Batch) -> None:
        if await _ends_within(batch, _PATIENCE_SECONDS):
            return
        token = f"gpuemu-{next(self._numbers)}"
        bars = self._server.work_done_progress
        try:
            await bars.create_async(token)
        except JsonRpcException:
            return  # the client would not have it
        try:
            bars.begin(token, types.WorkDoneProgressBegin(title=_title(batch), cancellable=True, percentage=0))
            self._stop_on_cancel(token, batch)
            while not await _ends_within(batch, _PERIOD_SECONDS):
                total = len(batch.parts)
                message = f"{batch.done}/{total}"
                bars.report(token, types.WorkDoneProgressReport(message=message, percentage=100 * batch.done // total))
        finally:
            bars.end(token, types.WorkDoneProgressEnd())
            bars.tokens.pop(token, None)  # pygls keeps them for ever

    def _stop_on_cancel(self, token: str, batch: Batch) -> None:
        def ended(future: Future[None]) -> None:
            if future.cancelled():
                self._cancel(batch)

        self._server.work_done_progress.tokens[token].add_done_callback(ended)


def _title(batch: Batch) -> str:
    return f"Checking {Path(batch.key.path).name}"


async def _ends_within(batch: Batch, seconds: float) -> bool:
    try:
        await asyncio.wait_for(batch.ended.wait(), seconds)
    except TimeoutError:
        return False
    return True
