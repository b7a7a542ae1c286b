"""State of the session with one client, shared by its handlers. Accessed on the event loop's thread only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.source.headers.kernel_files import may_have_kernels
from gpuemu_lsp.engine.subjects.languages import SUFFIXES
from gpuemu_lsp.server.diagnostics.kernel_results import KernelResults
from gpuemu_lsp.server.diagnostics.measurement_history import MeasurementHistory
from gpuemu_lsp.server.diagnostics.publisher import DiagnosticPublisher
from gpuemu_lsp.server.diagnostics.sources import DiagnosticStore
from gpuemu_lsp.server.documents.artifact_files import is_artifact_file
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.parsed_files import ParsedFile, ParsedFiles, is_python, is_source, text_on_disk
from gpuemu_lsp.server.jobs import JobRunner
from gpuemu_lsp.server.settings import Settings
from gpuemu_lsp.server.workspace.projects import Projects
from gpuemu_lsp.server.workspace.watched_folders import WatchTargets


class Session:
    """Documents, settings, workspace folders, projects, parsed files, results and diagnostics.

    ``revision`` counts edits of all documents. Results carry the revision of the text they were computed from, so that
    their ranges can be moved to the current text.
    """

    def __init__(
        self,
        documents: dict[str, Document],
        diagnostics: DiagnosticStore,
        publisher: DiagnosticPublisher,
        jobs: JobRunner,
        history: MeasurementHistory,
    ) -> None:
        self.settings = Settings()
        self.folders: list[str] = []
        self.documents = documents
        self.diagnostics = diagnostics
        self.publisher = publisher
        self.jobs = jobs
        self.history = history
        self.projects = Projects()
        self.parsed_files = ParsedFiles(self.projects)
        self.results = KernelResults()
        self.revision = 0

    def advance(self) -> int:
        """Increment the revision for an edit, and return it."""
        self.revision += 1
        return self.revision

    def uri_of(self, path: str) -> str:
        """Return a file's URI, in the client's own spelling while the file is open."""
        return self.publisher.uri_of(path)

    def text(self, path: str) -> str | None:
        """Return a file's text in the editor, else on disk; None where there is neither."""
        document = self.documents.get(path)
        return document.text if document is not None else text_on_disk(path)

    def has_file(self, path: str) -> bool:
        """Return whether a path is that of a file, and not of cells or of a text that was never saved."""
        document = self.documents.get(path)
        return document is None or document.kind == "file"

    async def parse(self, path: str, fresh: bool = False) -> ParsedFile | None:
        """Parse a file's text in the editor, else on disk; None where there is neither."""
        document = self.documents.get(path)
        return await self.parsed_files.parse(path, document.text if document is not None else None, fresh)

    def is_kernel_file(self, path: str) -> bool:
        """Return whether a file is CUDA, by its suffix or because gpuemu.toml names it as a source.

        A ``.py`` file, a header and a document that the client calls CUDA also are if their last parse found kernels.
        """
        if Path(path).suffix in SUFFIXES:
            return not is_artifact_file(path)
        parsed = self.parsed_files.last(path) if self._text_decides(path) else None
        if parsed is not None and parsed.has_kernels:
            return True
        project = self.projects.of(path)
        return project is not None and is_source(project, path)

    def may_have_kernels(self, path: str) -> bool:
        """Return whether a file is to be parsed, after which :meth:`is_kernel_file` is certain."""
        return self._text_decides(path) or self.is_kernel_file(path)

    def _text_decides(self, path: str) -> bool:
        """Return whether a file's text says whether it has kernels, and not its name."""
        document = self.documents.get(path)
        return is_python(path) or may_have_kernels(path, document.language if document is not None else "")

    def files(self) -> list[str]:
        """Return the sources of registered kernels, then the other open CUDA files."""
        registered = [spec.source for project in self.projects.known() for spec in project.kernels]
        return list(dict.fromkeys([*registered, *(path for path in self.documents if self.is_kernel_file(path))]))

    def checked_files(self) -> set[str]:
        """Return the CUDA files that are open or have results."""
        return {path for path in self.documents if self.is_kernel_file(path)} | self.diagnostics.checked_files()

    def dependents(self, paths: Sequence[str]) -> set[str]:
        """Return the checked files whose results depend on one of these files."""
        found = set()
        for source in self.checked_files():
            parsed = self.parsed_files.last(source)
            if parsed is not None and any(parsed.depends_on(path) for path in paths):
                found.add(source)
        return found

    def watch_targets(self) -> WatchTargets:
        """Return what to watch: folders, configurations, sources, references, open documents, and headers."""
        files = {*self.files(), *self.documents}
        sources: set[tuple[str, tuple[str, ...]]] = set()
        for project in self.projects.known():
            files |= {project.config} if project.config is not None else set()
            files |= {spec.reference for spec in project.kernels if spec.reference is not None}
            sources |= {(spec.source, spec.include_dirs) for spec in project.kernels}
        return WatchTargets(frozenset(self.folders), frozenset(files), frozenset(sources))
