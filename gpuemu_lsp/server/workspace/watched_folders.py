"""The client's folders: what comes and goes with them, and where files lie that count."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeAlias

from gpuemu_lsp.engine.source import include_closure
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.workspace.file_watcher import FileWatcher

_Source: TypeAlias = tuple[str, tuple[str, ...]]


class Surroundings:
    """Keeps the watcher on the folders that count. Which headers there are is read in a thread: handlers go on."""

    def __init__(self, session: Session, watcher: FileWatcher) -> None:
        self._session = session
        self._watcher = watcher
        self._looking = False
        self._again = False

    def look(self) -> None:
        """Have the watcher follow what may have changed; does not wait."""
        self._again = True
        if self._watcher.enabled and not self._looking:
            self._looking = True
            self._session.tasks.background(self._follow())

    async def _follow(self) -> None:
        try:
            while self._again:
                self._again = False
                files, sources = _named(self._session)
                folders = set(self._session.folders)
                self._watcher.watch(folders | await asyncio.to_thread(_folders, files, sources))
        finally:
            self._looking = False


def _named(session: Session) -> tuple[set[str], set[_Source]]:
    """Return the configurations, sources, references and open documents, and what to look for headers in."""
    files = {*session.files(), *session.documents}
    sources: set[_Source] = set()
    for project in session.projects.known():
        files |= {project.config} if project.config is not None else set()
        files |= {spec.reference for spec in project.kernels if spec.reference is not None}
        sources |= {(spec.source, spec.include_dirs) for spec in project.kernels}
    return files, sources


def _folders(files: set[str], sources: set[_Source]) -> set[str]:
    headers = {header for source, folders in sources for header in include_closure(source, folders)}
    return {str(Path(file).parent) for file in files | headers}
