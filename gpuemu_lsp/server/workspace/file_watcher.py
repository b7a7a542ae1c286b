"""File watcher for clients that do not watch files: observes the folders of configurations, sources and headers."""

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
from gpuemu_lsp.engine.source.headers.kernel_files import HEADERS
from gpuemu_lsp.engine.subjects.languages import SUFFIXES

_log = logging.getLogger(__name__)
_SUFFIXES = (*SUFFIXES, *HEADERS, ".py")
_TIMEOUT_MS = 500
_DEBOUNCE_MS = 100


class FileWatcher:
    """A thread that watches folders, not recursively; ``changed`` is called with paths on the event loop."""

    def __init__(self, changed: Callable[[list[str]], None]) -> None:
        self.enabled = False
        self._changed = changed
        self._folders: frozenset[str] = frozenset()
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def watch(self, folders: Iterable[str]) -> None:
        """Watch these folders in place of the previous ones."""
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
        """Stop watching; does not wait for the thread."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None
        self._folders = frozenset()

    def join(self, seconds: float) -> None:
        """Stop watching and wait for the thread, which must not outlive the interpreter."""
        self.close()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, folders: list[str], stop: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        try:
            options: dict[str, Any] = {"recursive": False, "rust_timeout": _TIMEOUT_MS, "raise_interrupt": False}
            # Two paths of one folder (symbolic links) are one watch to the system: a change is reported under one of
            # them, and passed on under every path that was requested.
            aliases: dict[str, list[str]] = {}
            for folder in folders:
                aliases.setdefault(os.path.realpath(folder), []).append(folder)
            for changes in watchfiles.watch(*folders, stop_event=stop, debounce=_DEBOUNCE_MS, **options):
                relevant = {path for _, path in changes if _is_relevant(path)}
                paths = sorted({alias for path in relevant for alias in _aliases(path, aliases)})
                if paths and not stop.is_set() and not loop.is_closed():
                    loop.call_soon_threadsafe(self._changed, paths)
        except (OSError, RuntimeError) as error:
            _log.warning("files are not watched: %s", error)


def _aliases(path: str, aliases: Mapping[str, list[str]]) -> list[str]:
    folder, name = os.path.split(path)
    return [str(Path(other) / name) for other in aliases.get(os.path.realpath(folder), [folder])]


def _is_relevant(path: str) -> bool:
    return Path(path).name == CONFIG_NAME or path.endswith(_SUFFIXES)
