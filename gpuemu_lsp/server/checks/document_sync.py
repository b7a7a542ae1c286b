"""What the client tells of documents and files, and what has to be looked at again then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.report.source_lines import forget as forget_lines
from gpuemu_lsp.server.checks.queue import Checker
from gpuemu_lsp.server.checks.scheduler import Key
from gpuemu_lsp.server.diagnostics.sources import Speaker
from gpuemu_lsp.server.documents.document import Change, Document
from gpuemu_lsp.server.session import Session


class Editing:
    """Keeps the documents, and asks for the checks that a change calls for."""

    def __init__(self, session: Session, checker: Checker) -> None:
        self._session = session
        self._checker = checker

    def opened(self, uri: str, path: str, version: int, text: str) -> None:
        """Take in a document and look at it."""
        session = self._session
        revision = session.advance()
        session.documents[path] = Document(uri, path, version, text, revision, revision)
        if Path(path).name == CONFIG_NAME:
            self.look_at_config(path)
        elif session.is_kernel_file(path):
            self._checker.look_at([path])
        session.publisher.publish([path])

    def changed(self, path: str, version: int, changes: Iterable[Change]) -> None:
        """Take in edits; look at the text once typing pauses."""
        session = self._session
        document = session.documents.get(path)
        if document is None:
            return
        document.version = version
        for change in changes:
            document.apply(change, session.advance(), session.publisher.encoding)
        if Path(path).name == CONFIG_NAME:
            self.look_at_config(path)
        elif session.settings.compile_while_typing:
            self._checker.compile_when_quiet(path)

    def saved(self, path: str, text: str | None = None) -> None:
        """Look again at everything that depends on a file, which is now on disk."""
        document = self._session.documents.get(path)
        if document is not None:
            if text is not None and text != document.text:
                document.apply(Change(text), self._session.advance(), self._session.publisher.encoding)
            document.saved = document.revision
        self.touched([path])

    def touched(self, paths: Sequence[str]) -> None:
        """Look again at everything that depends on files that have changed on disk."""
        forget_lines()
        wanted: set[str] = set()
        sources = self._session.sources()
        for path in paths:
            if Path(path).name == CONFIG_NAME:
                self.look_at_config(path)
                wanted |= {source for source in sources if Path(source).is_relative_to(Path(path).parent)}
            else:
                wanted |= {path} & sources
        self._checker.look_at(wanted | self._session.dependents(paths))

    def closed(self, path: str) -> None:
        """Let a document go: what was found in unsaved text goes with it."""
        session = self._session
        document = session.documents.pop(path, None)
        if document is None:
            return
        self._checker.cancel([Key("compile", path)])
        paths = {path}
        if Path(path).name == CONFIG_NAME:
            self.look_at_config(path)
        elif document.edited_since(document.saved):
            paths |= session.diagnostics.drop("compile", path)
        session.publisher.publish(paths)

    def folders_changed(self, added: Sequence[str], removed: Sequence[str]) -> None:
        """Take folders in and let others go, with what was found in files of theirs that are not open."""
        session = self._session
        session.folders = [folder for folder in session.folders if folder not in removed] + list(added)
        paths: set[str] = set()
        for path in session.diagnostics.owners():
            gone = any(Path(path).is_relative_to(folder) for folder in removed)
            kept = any(Path(path).is_relative_to(folder) for folder in session.folders) or path in session.documents
            if gone and not kept:
                paths |= self._checker.forget(path)
        session.publisher.publish(paths)
        self.look_at_folders()

    def look_at_folders(self) -> None:
        """Show what is wrong with the configurations of the client's folders."""
        for folder in self._session.folders:
            config = Path(folder) / CONFIG_NAME
            if config.exists():
                self.look_at_config(config.as_posix())

    def look_at_config(self, path: str) -> None:
        """Show what is wrong with a configuration as it is in the editor, else on disk."""
        session = self._session

        async def prepare() -> tuple[int, tuple[Finding, ...] | None]:
            revision, document = session.revision, session.documents.get(path)
            # So that there is a last good one when the next save is broken.
            await session.readings.away(session.projects.read_config, path)
            if document is not None:
                return revision, (await session.readings.config(path, document.text)).findings
            return revision, await session.readings.away(_findings_on_disk, path)

        def begin(found: tuple[int, tuple[Finding, ...] | None]) -> None:
            revision, findings = found
            if findings is None:
                paths = session.diagnostics.drop("config", path)
            else:
                paths = session.diagnostics.say(Speaker("config", path), findings, revision)
            session.publisher.publish(paths | {path})

        self._checker.scheduler.after(0.0, Key("config", path), prepare, begin)


def _findings_on_disk(path: str) -> tuple[Finding, ...] | None:
    return load(Path(path)).findings if Path(path).exists() else None
