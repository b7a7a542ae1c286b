"""What is open and what is known: the state that one client's handlers share. On the event loop's thread only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.check.model import CheckRequest
from gpuemu_lsp.engine.jobs.targets import SUFFIXES
from gpuemu_lsp.server.checks.requests import depends_on, requests_for
from gpuemu_lsp.server.diagnostics.kernel_results import Verdicts
from gpuemu_lsp.server.diagnostics.measurement_history import History
from gpuemu_lsp.server.diagnostics.publisher import Publisher
from gpuemu_lsp.server.diagnostics.sources import Diagnostics
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.parsed_files import Reading, Readings, disk_text, is_source
from gpuemu_lsp.server.jobs import Tasks
from gpuemu_lsp.server.workspace.projects import Projects
from gpuemu_lsp.server.workspace.settings import Settings

HEADERS = (".cuh", ".h", ".hpp", ".inl")


class Session:
    """Documents, settings, folders, configurations, readings, verdicts and diagnostics."""

    def __init__(self, publisher: Publisher, diagnostics: Diagnostics, tasks: Tasks) -> None:
        self.settings = Settings()
        self.folders: list[str] = []
        self.tasks = tasks
        self.publisher = publisher
        self.diagnostics = diagnostics
        self.projects = Projects()
        self.readings = Readings(self.projects)
        self.verdicts = Verdicts()
        self.history = History(tasks)
        self.documents: dict[str, Document] = publisher.documents
        self.revision = 0

    def advance(self) -> int:
        """Return the revision that a change makes: every edit of any document has its own."""
        self.revision += 1
        return self.revision

    def uri_of(self, path: str) -> str:
        """Return a file's URI as the client spells it, where it has said so."""
        return self.publisher.uri_of(path)

    def text(self, path: str) -> str | None:
        """Return a file's text as the editor has it, else as it is on disk; None where there is none."""
        document = self.documents.get(path)
        return document.text if document is not None else disk_text(path)

    async def reading(self, path: str, fresh: bool = False) -> Reading | None:
        """Return what a file's text says, as the editor has it, else as it is on disk; None where there is none."""
        document = self.documents.get(path)
        return await self.readings.of(path, document.text if document is not None else None, fresh)

    async def requests(self, path: str) -> tuple[CheckRequest, ...]:
        """Return a request for every kernel of a file as it is now."""
        reading = await self.reading(path)
        return () if reading is None else self.requests_of(reading)

    def requests_of(self, reading: Reading, execute: bool = True, deep: bool = False) -> tuple[CheckRequest, ...]:
        """Return a request for every kernel of a reading, with what the client's settings say."""
        unsaved = {
            path: document.text
            for path, document in self.documents.items()
            if path != reading.path and path.endswith(HEADERS) and document.edited_since(document.saved)
        }
        return requests_for(reading, self.settings, execute, deep, unsaved)

    def is_kernel_file(self, path: str) -> bool:
        """Say whether a file is CUDA, by its name or because gpuemu.toml names it."""
        if Path(path).suffix in SUFFIXES:
            return True
        project = self.projects.of(path)
        return project is not None and is_source(project, path)

    def files(self) -> list[str]:
        """Return the sources of registered kernels, then the other open CUDA files."""
        registered = [spec.source for project in self.projects.known() for spec in project.kernels]
        return list(dict.fromkeys([*registered, *(path for path in self.documents if self.is_kernel_file(path))]))

    def sources(self) -> set[str]:
        """Return the files that are shown as checked: those open, and those with findings."""
        return {path for path in self.documents if self.is_kernel_file(path)} | self.diagnostics.sources()

    def dependents(self, paths: Sequence[str]) -> set[str]:
        """Return the files shown as checked whose verdicts may change when some files do."""
        found = set()
        for source in self.sources():
            reading = self.readings.last(source)
            if reading is not None and any(depends_on(reading, path) for path in paths):
                found.add(source)
        return found
