"""A command of ``gpuemu`` in a process of its own, which never outlives the server: user code runs there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_MODULE = "gpuemu_lsp.cli.with_parent"
_STOP_SECONDS = 2.0
"""Time in which an interrupted command may end what it has started."""
_SHOWN_BYTES = 4096


class ChildProcess:
    """A command that runs once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(self, words: Sequence[str], folder: Path) -> str:
        """Run the command in a folder to its end; return the last part of what it has written to standard error."""
        command = [sys.executable, "-m", _MODULE, str(os.getpid()), *words]
        with tempfile.TemporaryFile() as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=folder,
                start_new_session=True,
            )
            if self._stopped:
                self.stop()
            self._process.wait()
            self._signal(signal.SIGKILL)
            said.seek(max(0, said.seek(0, os.SEEK_END) - _SHOWN_BYTES))
            return said.read().decode("utf-8", "replace").strip()

    def stop(self) -> None:
        """End the command and what it has started: first by an interrupt, then by force."""
        self._stopped = True
        if self._process is None:
            return
        self._signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
