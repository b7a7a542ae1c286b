"""Requests to stop a launch before its end, from a signal handler or another thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a launch is stopped: ``launch`` follows its name in messages, ``run`` says it of the whole run."""

    launch: str
    run: str


@dataclass(slots=True)
class StopRequest:
    """The request to stop whatever launches run, with the first ``reason`` for it.

    A launch ends as soon as generated code returns, as at its time limit: what it waits for can then be reported, while
    an exception would end it without a trace, or be lost where generated code calls Python.
    """

    reason: StopReason | None = None
    _hurry: Callable[[], None] | None = None

    def make(self, reason: StopReason) -> bool:
        """Request it; return whether a launch ends by this request. Otherwise the caller has to interrupt."""
        first = self.reason is None
        if first:
            self.reason = reason
        hurry = self._hurry
        if hurry is not None:
            hurry()
        return first and hurry is not None

    @contextmanager
    def listening(self, hurry: Callable[[], None]) -> Iterator[None]:
        """Say that a launch executes in the body, which looks at the request; ``hurry`` lets it do so soon."""
        self._hurry = hurry
        try:
            yield
        finally:
            self._hurry = None
