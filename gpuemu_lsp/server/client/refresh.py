"""Asking the client to fetch something again: one question at a time, so that one who never answers costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Refresher:
    """Sends a refresh request; what is wanted before the answer is one more, after it."""

    def __init__(self, ask: Callable[[None], Future[Any]]) -> None:
        self.supported = False
        self._ask = ask
        self._asked = False
        self._again = False

    def refresh(self) -> None:
        """Ask, where the client can be asked; it may answer whenever it likes."""
        if not self.supported:
            return
        if self._asked:
            self._again = True
            return
        self._asked = True
        self._ask(None).add_done_callback(self._answered)

    def _answered(self, _: Future[Any]) -> None:
        self._asked = False
        if self._again:
            self._again = False
            self.refresh()
