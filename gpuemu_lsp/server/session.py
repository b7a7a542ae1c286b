"""The state behind the handlers: what is open, what is known, and what to do when either changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpuemu_lsp.engine.campaign.targets import SUFFIXES
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.report.lines import forget as forget_lines
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.workers import Pool
from gpuemu_lsp.server.checks import content, depends_on, is_source, requests_for
from gpuemu_lsp.server.declarations import declarations
from gpuemu_lsp.server.diagnostics import Diagnostics, Speaker
from gpuemu_lsp.server.documents import Change, Document
from gpuemu_lsp.server.outcome import Outcome, repeatable
from gpuemu_lsp.server.projects import Projects, findings_of
from gpuemu_lsp.server.publish import Publisher
from gpuemu_lsp.server.scheduler import Batch, Key, Listener, Part, Scheduler
from gpuemu_lsp.server.verdicts import Verdicts

_TYPING_SECONDS = 0.25
_SAVE_SECONDS = 0.02
"""Several saves or watcher events of one moment are one."""


@dataclass(slots=True)
class Settings:
    """What the client said at initialize. ``trusted`` False: nothing of the user's is executed."""

    trusted: bool = True
    folders: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Watcher:
    """Whom the session tells, besides the client's diagnostics: a batch began, one ended."""

    begun: Callable[[Batch], None]
    ended: Callable[[Batch], None]


class Session:
    """Everything one client's handlers share. On the event loop's thread only."""

    def __init__(self, pool: Pool, publisher: Publisher, diagnostics: Diagnostics, watcher: Watcher) -> None:
        self.settings = Settings()
        self.publisher = publisher
        self.projects = Projects()
        self.verdicts = Verdicts()
        self.documents: dict[str, Document] = publisher.documents
        self._watcher = watcher
        self._diagnostics = diagnostics
        self._outcome = Outcome(diagnostics, self.verdicts)
        self._checked: dict[str, str] = {}
        self._revision = 0
        listener = Listener(watcher.begun, self._compiled, self._verdict, self._ended)
        self.scheduler = Scheduler(pool, listener)

    # ---- what the client tells -----------------------------------------------------------------------------------

    def opened(self, uri: str, path: str, version: int, text: str) -> None:
        """Take in a document and look at it."""
        revision = self._next()
        self.documents[path] = Document(uri, path, version, text, revision, revision)
        if Path(path).name == CONFIG_NAME:
            self._typed_config(path)
        elif self._is_kernel_file(path):
            self.check_soon([path])
        self.publisher.publish([path])

    def changed(self, path: str, version: int, changes: Iterable[Change]) -> None:
        """Take in edits; look at the text once typing pauses."""
        document = self.documents.get(path)
        if document is None:
            return
        document.version = version
        for change in changes:
            document.apply(change, self._next(), self.publisher.encoding)
        if Path(path).name == CONFIG_NAME:
            self._typed_config(path)
        elif self._is_kernel_file(path):
            key = Key("compile", path)
            self.scheduler.after(_TYPING_SECONDS, key, partial(self._compile, path))

    def saved(self, path: str, text: str | None = None) -> None:
        """Look again at everything that depends on a file, which is now on disk."""
        document = self.documents.get(path)
        if document is not None:
            if text is not None and text != document.text:
                document.apply(Change(text), self._next(), self.publisher.encoding)
            document.saved = document.revision
        self.touched([path])

    def touched(self, paths: Sequence[str]) -> None:
        """Look again at everything that depends on files that have changed on disk."""
        forget_lines()
        wanted: set[str] = set()
        for path in paths:
            if Path(path).name == CONFIG_NAME:
                self._typed_config(path)
                wanted |= {source for source in self._sources() if Path(source).is_relative_to(Path(path).parent)}
            elif self._is_kernel_file(path):
                wanted |= {path} & self._sources()
        self.check_soon(wanted | self._dependents(paths))

    def closed(self, path: str) -> None:
        """Let a document go: what was found in unsaved text goes with it."""
        document = self.documents.pop(path, None)
        if document is None:
            return
        self.scheduler.cancel([Key("compile", path)])
        paths = {path}
        if Path(path).name == CONFIG_NAME:
            paths |= self._diagnostics.drop("config", path)
            if Path(path).exists():
                paths |= self._diagnostics.say(Speaker("config", path), findings_of(path, None), self._revision)
        elif document.edited_since(document.saved):
            paths |= self._diagnostics.drop("compile", path)
        self.publisher.publish(paths)

    # ---- what to run ---------------------------------------------------------------------------------------------

    def check_soon(self, paths: Iterable[str], force: bool = False) -> None:
        """Check files in a moment; unless forced, only those whose check would read something new."""
        for path in paths:
            if force:
                self._checked.pop(path, None)
            self.scheduler.forget(Key("compile", path))
            self.scheduler.after(_SAVE_SECONDS, Key("check", path), partial(self._check, path))

    def check_all(self) -> int:
        """Check every registered kernel and every open file; return how many files that are."""
        for folder in self.settings.folders:
            self.projects.of(f"{folder}/{CONFIG_NAME}")
        registered = {spec.source for project in self.projects.known() for spec in project.kernels}
        files = registered | {path for path in self.documents if self._is_kernel_file(path)}
        self.check_soon(files, force=True)
        return len(files)

    def cancel(self, keys: Iterable[Key] | None = None) -> int:
        """Give up running and waiting checks, all of them by default; return how many those were."""
        return self.scheduler.cancel(keys)

    def load_folders(self) -> None:
        """Show what is wrong with the configurations of the client's folders."""
        for folder in self.settings.folders:
            config = Path(folder) / CONFIG_NAME
            if config.exists():
                self._typed_config(config.as_posix())

    def _check(self, path: str) -> None:
        project = self.projects.of(path)
        text = self._text(path)
        if text is None:  # deleted
            self.scheduler.start(Key("check", path), (), self._revision)
            return
        key = Key("check", path)
        requests = requests_for(project, path, text, self.settings.trusted) if project is not None else ()
        if not requests and (project is None or project.broken) and declarations(path, text):
            self.cancel([key])
            self._checked.pop(path, None)
            paths = self._diagnostics.say(Speaker("run", path), [_not_checked(path)], self._revision)
            self.publisher.publish(paths)
            return
        digest = content(requests)
        if self._checked.get(path) == digest:
            self.scheduler.confirm(key, self._revision)
            self.publisher.publish(self._diagnostics.confirm(path, self._revision))
            return
        self.scheduler.cancel([Key("compile", path)])
        self.scheduler.start(key, requests, self._revision)
        self._checked[path] = digest

    def _compile(self, path: str) -> None:
        document = self.documents.get(path)
        project = self.projects.of(path)
        if document is None or project is None:
            return
        self._checked.pop(path, None)
        self.publisher.publish(self._diagnostics.paths_of(path) | {path})  # marks what the last save's run found
        requests = requests_for(project, path, document.text, execute=False)
        self.scheduler.start(Key("compile", path), requests, document.revision)

    def _typed_config(self, path: str) -> None:
        self.projects.at(path)  # so that there is a last good one when the next save is broken
        document = self.documents.get(path)
        if document is None and not Path(path).exists():
            paths = self._diagnostics.drop("config", path)
        else:
            findings = findings_of(path, document.text if document is not None else None)
            paths = self._diagnostics.say(Speaker("config", path), findings, self._revision)
        self.publisher.publish(paths | {path})

    # ---- what comes back -----------------------------------------------------------------------------------------

    def _compiled(self, batch: Batch, part: Part) -> None:
        self.publisher.publish(self._outcome.compiled(batch, part))

    def _verdict(self, batch: Batch, part: Part) -> None:
        self.publisher.publish(self._outcome.verdict(batch, part))

    def _ended(self, batch: Batch, by_itself: bool) -> None:
        if by_itself:
            self.publisher.publish(self._outcome.ended(batch))
        if batch.key.kind == "check" and not (by_itself and repeatable(batch)):
            self._checked.pop(batch.key.path, None)
        self._watcher.ended(batch)

    # ---- small questions -----------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._revision += 1
        return self._revision

    def _text(self, path: str) -> str | None:
        document = self.documents.get(path)
        if document is not None:
            return document.text
        try:
            return Path(path).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def _is_kernel_file(self, path: str) -> bool:
        if Path(path).suffix in SUFFIXES:
            return True
        project = self.projects.of(path)
        return project is not None and is_source(project, path)

    def _sources(self) -> set[str]:
        """Return the files that are shown as checked: those open, and those with findings."""
        return {path for path in self.documents if self._is_kernel_file(path)} | self._diagnostics.sources()

    def _dependents(self, paths: Sequence[str]) -> set[str]:
        found = set()
        for source in self._sources():
            project = self.projects.of(source)
            text = self._text(source)
            if project is None or text is None:
                continue
            specs = [request.spec for request in requests_for(project, source, text, execute=False)]
            if any(depends_on(spec, path) for spec in specs for path in paths):
                found.add(source)
        return found


def _not_checked(path: str) -> Finding:
    message = f"Nothing of this file was checked: what {CONFIG_NAME} says of it has errors."
    return make("engine/not-executed", message, Place(path, Range.of(0, 0, 0, 1)))
