"""A command of ``gpuemu`` as a child of the server, without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.jobs.child_command import ChildCommand


async def run_child(command: ChildCommand, words: Sequence[str], folder: Path) -> str:
    """Run a command to its end, as :meth:`ChildCommand.run` does; it ends with the coroutine."""
    try:
        return await asyncio.to_thread(command.run, words, folder)
    finally:
        command.kill()
