"""The lines of one file that are executed in a ``with`` statement, and the exceptions that they handle."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from gpuemu.judge.raised import Raised


class ExecutedLines:
    """Notes the lines of a file that are executed, in all threads, in ``executed``; 1-based.

    ``handled`` has, by line, the first exception that was being handled there.
    """

    def __init__(self, path: str) -> None:
        self.executed: set[int] = set()
        self.handled: dict[int, Raised] = {}
        self._path = path

    def __enter__(self) -> ExecutedLines:
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        # Frames of other files are not traced by line, which would slow PyTorch down.
        return self._on_line if frame.f_code.co_filename == self._path else None

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.executed.add(frame.f_lineno)
            error = sys.exc_info()[1]
            if error is not None and frame.f_lineno not in self.handled:
                self.handled[frame.f_lineno] = Raised.of(error, self._path)
        return self._on_line
