"""Selection of the folders to watch: those of all files that a check of the workspace reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.source import include_closure
from gpuemu_lsp.server.events import BatchEnded, ServerEvent
from gpuemu_lsp.server.jobs import JobRunner
from gpuemu_lsp.server.workspace.file_watcher import FileWatcher


@dataclass(frozen=True, slots=True)
class WatchTargets:
    """Folders and files to watch, and ``(source, include_dirs)`` of the sources whose headers are watched as well."""

    folders: frozenset[str]
    files: frozenset[str]
    sources: frozenset[tuple[str, tuple[str, ...]]]


class WatchedFolders:
    """Keeps ``watcher`` on the current targets. Headers are searched in a thread, so that handlers never wait."""

    def __init__(self, watcher: FileWatcher, jobs: JobRunner, targets: Callable[[], WatchTargets]) -> None:
        self.watcher = watcher
        self._jobs = jobs
        self._targets = targets
        self._updating = False
        self._again = False

    def on_event(self, event: ServerEvent) -> None:
        """Update after a batch, which may have parsed other headers or configurations."""
        if isinstance(event, BatchEnded):
            self.update()

    def update(self) -> None:
        """Let the watcher follow the targets; does not wait."""
        self._again = True
        if self.watcher.enabled and not self._updating:
            self._updating = True
            self._jobs.background(self._update())

    async def _update(self) -> None:
        try:
            while self._again:
                self._again = False
                targets = self._targets()
                self.watcher.watch(targets.folders | await asyncio.to_thread(_folders, targets))
        finally:
            self._updating = False


def _folders(targets: WatchTargets) -> set[str]:
    headers = {header for source, folders in targets.sources for header in include_closure(source, folders)}
    return {str(Path(file).parent) for file in targets.files | headers}
