"""Watches the files that count, for clients that do not: the folders of configurations, sources and what those use."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import watchfiles

from gpuemu_lsp.engine.project.load import CONFIG_NAME

_log = logging.getLogger(__name__)
_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".py")
_TIMEOUT_MS = 500


class FileWatcher:
    """A thread that looks at some folders, not at what is below them; ``changed`` gets paths on the event loop."""

    def __init__(self, changed: Callable[[list[str]], None]) -> None:
        self.enabled = False
        self._changed = changed
        self._folders: frozenset[str] = frozenset()
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def watch(self, folders: Iterable[str]) -> None:
        """Look at these folders from now on."""
        wanted = frozenset(folder for folder in folders if Path(folder).is_dir())
        if not self.enabled or wanted == self._folders:
            return
        self.close()
        self._folders = wanted
        if wanted:
            self._stop = threading.Event()
            arguments = (sorted(wanted), self._stop, asyncio.get_running_loop())
            self._thread = threading.Thread(target=self._run, args=arguments, name="gpuemu-watch", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None
        self._folders = frozenset()

    def join(self, seconds: float) -> None:
        """Stop looking, and wait for the thread: the interpreter must not end under it."""
        self.close()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, folders: list[str], stop: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        try:
            options: dict[str, Any] = {"recursive": False, "rust_timeout": _TIMEOUT_MS, "raise_interrupt": False}
            # Two names of a folder are one to the system: what is reported of it is told under every name asked for.
            names: dict[str, list[str]] = {}
            for folder in folders:
                names.setdefault(os.path.realpath(folder), []).append(folder)
            for changes in watchfiles.watch(*folders, stop_event=stop, debounce=100, **options):
                told = {path for _, path in changes if _counts(path)}
                paths = sorted({spelled for path in told for spelled in _spelled(path, names)})
                if paths and not stop.is_set() and not loop.is_closed():
                    loop.call_soon_threadsafe(self._changed, paths)
        except (OSError, RuntimeError) as error:
            _log.warning("files are not watched: %s", error)


def _spelled(path: str, names: Mapping[str, list[str]]) -> list[str]:
    folder, name = os.path.split(path)
    return [str(Path(other) / name) for other in names.get(os.path.realpath(folder), [folder])]


def _counts(path: str) -> bool:
    return Path(path).name == CONFIG_NAME or path.endswith(_SUFFIXES)
