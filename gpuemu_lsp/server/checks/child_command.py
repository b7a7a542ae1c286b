"""A command of ``gpuemu`` in a process of its own, which never outlives the server: user code runs there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path

_MODULE = "gpuemu_lsp.cli.with_parent"
_STOP_SECONDS = 2.0
"""Time in which an interrupted command may report what it has found."""
_SHOWN_LINES = 12


class ChildCommand:
    """A command that runs once, and can be cancelled: first by an interrupt, then by force."""

    def __init__(self) -> None:
        self.cancelled = False
        self._process: Process | None = None

    async def run(self, words: Sequence[str], folder: Path) -> str:
        """Run the command in a folder to its end; return the last lines that it has written to standard error."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", _MODULE, str(os.getpid()), *words),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            cwd=folder,
            start_new_session=True,
        )
        self._process = process
        try:
            if self.cancelled:
                self.kill()
            assert process.stderr is not None
            lines: list[bytes] = []
            # A program may write without end: only the last lines are kept.
            while chunk := await process.stderr.read(1 << 16):
                lines = [*lines, *chunk.splitlines()][-_SHOWN_LINES:]
            await process.wait()
        finally:
            self.kill()
        return b"\n".join(lines).decode("utf-8", "replace").strip()

    def cancel(self) -> None:
        """End the command and what it has started."""
        self.cancelled = True
        self._signal(signal.SIGINT)
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().call_later(_STOP_SECONDS, self.kill)

    def kill(self) -> None:
        """End everything that is left of it."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
