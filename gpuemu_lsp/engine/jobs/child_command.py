"""A command of ``gpuemu`` in a process of its own, which never outlives this one: user code runs there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

_MODULE = "gpuemu_lsp.cli.with_parent"
_STOP_SECONDS = 2.0
"""Time in which an interrupted command may report what it has found."""
_SHOWN_BYTES = 8192
_SHOWN_LINES = 12


class ChildCommand:
    """A command that runs once, and can be cancelled from any thread: first by an interrupt, then by force."""

    def __init__(self) -> None:
        self.cancelled = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], folder: Path) -> str:
        """Run the command in a folder to its end; return the last lines that it has written to standard error."""
        with tempfile.TemporaryFile() as errors:
            with self._lock:
                process = subprocess.Popen(
                    (sys.executable, "-m", _MODULE, str(os.getpid()), *words),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    cwd=folder,
                    start_new_session=True,
                )
                self._process = process
            try:
                if self.cancelled:
                    self.kill()
                process.wait()
            finally:
                self.kill()
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _SHOWN_BYTES))
            lines = errors.read().splitlines()[-_SHOWN_LINES:]
        return b"\n".join(lines).decode("utf-8", "replace").strip()

    def cancel(self) -> None:
        """End the command and what it has started. Does not wait."""
        self.cancelled = True
        self._signal(signal.SIGINT)
        timer = threading.Timer(_STOP_SECONDS, self.kill)
        timer.daemon = True
        timer.start()

    def kill(self) -> None:
        """End everything that is left of it."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Send a signal to the group of the command, unless it has ended: its number may then be another's."""
        with self._lock:
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
