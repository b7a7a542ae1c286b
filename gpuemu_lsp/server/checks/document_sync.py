"""Synchronisation of documents and files on disk, and the checks that a change requires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import Project
from gpuemu_lsp.engine.report.source_lines import forget as forget_lines
from gpuemu_lsp.engine.subjects.ops.client_verdicts import unverified_op
from gpuemu_lsp.server.checks.check_queue import CheckQueue
from gpuemu_lsp.server.checks.check_states import CheckStates
from gpuemu_lsp.server.checks.scheduler import BatchScheduler
from gpuemu_lsp.server.diagnostics.sources import DiagnosticSource
from gpuemu_lsp.server.documents.document import ContentChange, Document, DocumentKind
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.work import BatchKey


class DocumentSync:
    """Applies notifications about documents, files and workspace folders to the session.

    ``states`` publishes the verdict on each text, or why there is none, to a client that is an agent.
    """

    def __init__(self, session: Session, queue: CheckQueue, scheduler: BatchScheduler, states: CheckStates) -> None:
        self._session = session
        self._queue = queue
        self.states = states
        self._scheduler = scheduler

    def opened(
        self, uri: str, path: str, version: int, text: str, kind: DocumentKind = "file", language: str = ""
    ) -> None:
        """Add a document and check it."""
        session = self._session
        session.documents[path] = Document(uri, path, version, text, kind=kind, language=language)
        if Path(path).name == CONFIG_NAME:
            self._validate_config(path)
            # The source of ops that have no file in the project.
            if session.is_kernel_file(path):
                self._queue.file_opened(path)
        elif session.may_have_kernels(path):
            self._queue.file_opened(path)
        session.publisher.publish([path])

    def changed(self, path: str, version: int, changes: Iterable[ContentChange]) -> None:
        """Apply edits; compile the text once typing pauses."""
        session = self._session
        document = session.documents.get(path)
        if document is None:
            return
        document.version = version
        for change in changes:
            document.apply(change, session.advance(), session.publisher.encoding)
        if Path(path).name == CONFIG_NAME:
            self._validate_config(path)
        elif session.settings.compile_while_typing:
            self._queue.text_edited(path)
        self.states.publish(path)

    def saved(self, path: str, text: str | None = None) -> None:
        """Check everything that depends on a saved file; ``text`` is the content the client has saved."""
        document = self._session.documents.get(path)
        if document is not None:
            if text is not None and text != document.text:
                document.apply(ContentChange(text), self._session.advance(), self._session.publisher.encoding)
            document.saved = document.revision
        self.changed_on_disk([path])

    def changed_on_disk(self, paths: Sequence[str]) -> None:
        """Check everything that depends on files that have changed on disk."""
        forget_lines()
        session = self._session
        affected: set[str] = set()
        checked = session.checked_files()
        for path in paths:
            if Path(path).name == CONFIG_NAME:
                self._validate_config(path)
                affected |= {source for source in checked if Path(source).is_relative_to(Path(path).parent)}
            else:
                affected |= {path} & checked
                if path in session.documents and session.may_have_kernels(path):
                    affected.add(path)  # it may have its first kernel
        self._validate_configs_naming(paths)
        self._queue.files_changed(affected | session.dependents(paths))

    def _validate_configs_naming(self, paths: Sequence[str]) -> None:
        """Validate the configurations whose files have been renamed, deleted or created."""
        session = self._session
        exists = {path: Path(path).exists() for path in paths}
        for project in session.projects.known():
            named = {path for spec in project.kernels for path in (spec.source, spec.reference)}
            gone = any(path in named and not there for path, there in exists.items())
            missing = any(finding.rule == "config/missing-file" for finding in project.findings)
            came = any(there and Path(path).is_relative_to(project.root) for path, there in exists.items())
            if project.config is not None and (gone or (missing and came)):
                session.projects.expire(project.config)
                session.parsed_files.forget_config(project.config)
                self._validate_config(project.config)

    def closed(self, path: str) -> None:
        """Remove a document, and the findings of its unsaved text."""
        session = self._session
        document = session.documents.pop(path, None)
        if document is None:
            return
        self._queue.cancel_compilation(path)
        paths = {path}
        if Path(path).name == CONFIG_NAME:
            self._validate_config(path)
        elif document.edited_since(document.saved):
            paths |= session.diagnostics.drop("compile", path)
        session.publisher.publish(paths)

    def folders_changed(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """Add and remove workspace folders. Results of removed folders are dropped, except those of open files."""
        session = self._session
        session.folders = [folder for folder in session.folders if folder not in removed] + list(added)
        paths: set[str] = set()
        for path in session.diagnostics.files():
            gone = any(Path(path).is_relative_to(folder) for folder in removed)
            kept = any(Path(path).is_relative_to(folder) for folder in session.folders) or path in session.documents
            if gone and not kept:
                paths |= self._queue.drop_file(path)
        session.publisher.publish(paths)
        self.validate_folders()

    def validate_folders(self) -> None:
        """Publish the diagnostics of the configurations in the workspace folders."""
        for folder in self._session.folders:
            config = Path(folder) / CONFIG_NAME
            if config.exists():
                self._validate_config(config.as_posix())

    def _validate_config(self, path: str) -> None:
        """Publish the diagnostics of a configuration, from its text in the editor, else on disk."""
        session = self._session

        async def prepare() -> tuple[int, tuple[Finding, ...] | None]:
            revision, document = session.revision, session.documents.get(path)
            # Also when the editor has another text: the version on disk is the fallback for an invalid save.
            await session.parsed_files.run_in_thread(session.projects.read_config, path)
            if document is not None:
                return revision, _findings(await session.parsed_files.parse_config(path, document.text))
            return revision, await session.parsed_files.run_in_thread(_findings_on_disk, path)

        def publish(checked: tuple[int, tuple[Finding, ...] | None]) -> None:
            revision, findings = checked
            if findings is None:
                paths = session.diagnostics.drop("config", path)
            else:
                paths = session.diagnostics.replace(DiagnosticSource("config", path), findings, revision)
            session.publisher.publish(paths | {path})

        self._scheduler.debounce(0.0, BatchKey("config", path), prepare, publish)


def _findings_on_disk(path: str) -> tuple[Finding, ...] | None:
    return _findings(load(Path(path))) if Path(path).exists() else None


def _findings(project: Project) -> tuple[Finding, ...]:
    unverified = (unverified_op(spec) for spec in project.kernels)
    return project.findings + tuple(finding for finding in unverified if finding is not None)
