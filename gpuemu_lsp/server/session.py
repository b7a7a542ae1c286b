"""The state behind the handlers: what is open, what is known, and what to do when either changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from gpuemu_lsp.engine.campaign.targets import SUFFIXES
from gpuemu_lsp.engine.check.model import CheckRequest
from gpuemu_lsp.engine.check.replay_model import Replay
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.report.lines import forget as forget_lines
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.workers import Pool
from gpuemu_lsp.server.checks import Order, content, depends_on, is_source, requests_for
from gpuemu_lsp.server.declarations import declarations
from gpuemu_lsp.server.diagnostics import Diagnostics, Layer, Speaker
from gpuemu_lsp.server.documents import Change, Document
from gpuemu_lsp.server.failures import plain_uri
from gpuemu_lsp.server.outcome import Outcome, repeatable
from gpuemu_lsp.server.projects import Projects, findings_of
from gpuemu_lsp.server.publish import Publisher
from gpuemu_lsp.server.scheduler import Batch, Key, Listener, Part, Scheduler
from gpuemu_lsp.server.settings import Settings
from gpuemu_lsp.server.tasks import Tasks
from gpuemu_lsp.server.verdicts import Verdicts

_TYPING_SECONDS = 0.25
_HEADERS = (".cuh", ".h", ".hpp", ".inl")
_SAVE_SECONDS = 0.02
"""Several saves or watcher events of one moment are one."""


class Watcher(Protocol):
    """Whom the session tells, besides the client's diagnostics."""

    def begun(self, batch: Batch) -> None:
        """A batch was handed to the workers."""

    def started(self, batch: Batch, part: Part) -> None:
        """A worker has begun with a kernel."""

    def verdict(self, batch: Batch, part: Part) -> None:
        """A kernel has its verdict."""

    def ended(self, batch: Batch, by_itself: bool) -> None:
        """A batch has ended, by itself or because it was given up."""

    def refused(self, path: str) -> None:
        """A file that was to be checked has nothing that can be."""

    def edited(self, path: str) -> None:
        """A file's text is another than the one that was checked."""


class Session:
    """Everything one client's handlers share. On the event loop's thread only."""

    def __init__(
        self, pool: Pool, publisher: Publisher, diagnostics: Diagnostics, watcher: Watcher, tasks: Tasks
    ) -> None:
        self.settings = Settings()
        self.folders: list[str] = []
        self.tasks = tasks
        self.publisher = publisher
        self.projects = Projects()
        self.verdicts = Verdicts()
        self.documents: dict[str, Document] = publisher.documents
        self._watcher = watcher
        self.diagnostics = diagnostics
        self._outcome = Outcome(diagnostics, self.verdicts)
        self._checked: dict[str, str] = {}
        self._orders: dict[str, Order] = {}
        self._revision = 0
        listener = Listener(watcher.begun, watcher.started, self._compiled, self._verdict, self._ended)
        self.scheduler = Scheduler(pool, listener)

    # ---- what the client tells -----------------------------------------------------------------------------------

    def opened(self, uri: str, path: str, version: int, text: str) -> None:
        """Take in a document and look at it."""
        revision = self._next()
        self.documents[path] = Document(uri, path, version, text, revision, revision)
        if Path(path).name == CONFIG_NAME:
            self.typed_config(path)
        elif self.is_kernel_file(path):
            self._look_at([path])
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
            self.typed_config(path)
        elif self.settings.compile_while_typing:
            key = Key("compile", path)
            begin = self._compile if self.is_kernel_file(path) else self._compile_users
            self.scheduler.after(_TYPING_SECONDS, key, partial(begin, path))

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
                self.typed_config(path)
                wanted |= {source for source in self._sources() if Path(source).is_relative_to(Path(path).parent)}
            elif self.is_kernel_file(path):
                wanted |= {path} & self._sources()
        self._look_at(wanted | self._dependents(paths))

    def closed(self, path: str) -> None:
        """Let a document go: what was found in unsaved text goes with it."""
        document = self.documents.pop(path, None)
        if document is None:
            return
        self.scheduler.cancel([Key("compile", path)])
        paths = {path}
        if Path(path).name == CONFIG_NAME:
            paths |= self.diagnostics.drop("config", path)
            if Path(path).exists():
                paths |= self.diagnostics.say(Speaker("config", path), findings_of(path, None), self._revision)
        elif document.edited_since(document.saved):
            paths |= self.diagnostics.drop("compile", path)
        self.publisher.publish(paths)

    # ---- what to run ---------------------------------------------------------------------------------------------

    def check_soon(self, paths: Iterable[str], order: Order | None = None) -> None:
        """Check files in a moment; unless forced, only those whose check would read something new."""
        for path in paths:
            key = Key("check", path)
            asked = (order or Order()).joined(self._orders.get(path))
            running = self.scheduler.running(key)
            if asked.kernels is not None and running is not None and running.whole:
                asked = replace(asked, kernels=None, deep=asked.deep or running.deep)
            self._orders[path] = asked
            self.scheduler.forget(Key("compile", path))
            self.scheduler.after(_SAVE_SECONDS, key, partial(self._check, path))

    def check_all(self) -> int:
        """Check every registered kernel and every open file; return how many files that are."""
        self.projects.load(self.folders)
        files = self.files()
        self.check_soon(files, Order(force=True))
        return len(files)

    def files(self) -> list[str]:
        """Return the sources of registered kernels, then the other open CUDA files."""
        registered = [spec.source for project in self.projects.known() for spec in project.kernels]
        return list(dict.fromkeys([*registered, *(path for path in self.documents if self.is_kernel_file(path))]))

    def cancel(self, keys: Iterable[Key] | None = None) -> int:
        """Give up running and waiting checks, all of them by default; return how many those were."""
        return self.scheduler.cancel(keys) + (self.tasks.cancel() if keys is None else 0)

    def forget(self, path: str) -> set[str]:
        """Let go of all that was found in checking a file; return the files whose diagnostics may have changed."""
        self.cancel([Key("check", path), Key("compile", path)])
        self._checked.pop(path, None)
        layers: tuple[Layer, ...] = ("config", "compile", "run")
        return {changed for layer in layers for changed in self.diagnostics.drop(layer, path)}

    def abandon(self, paths: Iterable[str]) -> None:
        """Give up the checks of some files."""
        self.cancel([Key("check", path) for path in paths])

    def uri_of(self, path: str) -> str:
        """Return a file's URI as the client spells it, where it has said so."""
        document = self.documents.get(path)
        return document.uri if document is not None else plain_uri(path)

    async def wait_idle(self) -> None:
        """Wait until nothing waits or runs."""
        while self.scheduler.busy or self.tasks.busy:
            await self.scheduler.wait_idle()
            await self.tasks.wait_idle()

    def requests(self, path: str, deep: bool = False) -> tuple[CheckRequest, ...]:
        """Return a request for every kernel of a file as it is now."""
        project, text = self.projects.of(path), self.text(path)
        if project is None or text is None:
            return ()
        return requests_for(project, path, text, self.settings, deep=deep, unsaved=self._unsaved(path))

    def smaller(self, request: CheckRequest, replay: Replay) -> None:
        """Show a minimised case, unless the text it was found in is gone."""
        if self.text(request.spec.source) == request.text:
            self.publisher.publish(self._outcome.smaller(request, replay, self._revision))

    def _look_at(self, paths: Iterable[str]) -> None:
        """Check files that have changed; where the user checks by hand, only compile them."""
        if self.settings.check_on == "save":
            self.check_soon(paths)
            return
        for path in paths:
            self.scheduler.after(_SAVE_SECONDS, Key("compile", path), partial(self._compile, path))

    def _check(self, path: str) -> None:
        order = self._orders.pop(path, Order())
        project = self.projects.of(path)
        text = self.text(path)
        key = Key("check", path)
        if text is None:  # deleted
            self.scheduler.start(key, (), self._revision)
            self._watcher.refused(path)
            return
        requests = self.requests(path, order.deep)
        if not requests and (project is None or project.broken) and declarations(path, text):
            self.cancel([key])
            self._checked.pop(path, None)
            paths = self.diagnostics.say(Speaker("run", path), [_not_checked(path)], self._revision)
            self.publisher.publish(paths)
            self._watcher.refused(path)
            return
        digest = content(requests)
        if not order.force and self._checked.get(path) == digest:
            self.scheduler.confirm(key, self._revision)
            self.publisher.publish(self.diagnostics.confirm(path, self._revision))
            return
        self.scheduler.cancel([Key("compile", path)])
        chosen = [item for item in requests if order.kernels is None or item.spec.name in order.kernels]
        if not chosen:
            self._watcher.refused(path)
        if order.kernels is not None and not chosen:
            return
        self.scheduler.start(key, chosen, self._revision, whole=order.kernels is None, deep=order.deep)
        if order.kernels is None and not order.deep:
            self._checked[path] = digest

    def _compile(self, path: str) -> None:
        document = self.documents.get(path)
        project = self.projects.of(path)
        if document is None or project is None:
            return
        self._checked.pop(path, None)
        self._watcher.edited(path)
        self.publisher.publish(self.diagnostics.paths_of(path) | {path})  # marks what the last save's run found
        unsaved = self._unsaved(path)
        requests = requests_for(project, path, document.text, self.settings, execute=False, unsaved=unsaved)
        self.scheduler.start(Key("compile", path), requests, document.revision)
        if path.endswith(_HEADERS):
            self._compile_users(path)

    def _compile_users(self, header: str) -> None:
        """Compile the open documents that include a header which is being typed."""
        for path in self._dependents([header]) & self.documents.keys() - {header}:
            self._compile(path)

    def _unsaved(self, path: str) -> dict[str, str]:
        return {
            other: document.text
            for other, document in self.documents.items()
            if other != path and other.endswith(_HEADERS) and document.edited_since(document.saved)
        }

    def typed_config(self, path: str) -> None:
        """Show what is wrong with a configuration as it is in the editor, else on disk."""
        self.projects.at(path)  # so that there is a last good one when the next save is broken
        document = self.documents.get(path)
        if document is None and not Path(path).exists():
            paths = self.diagnostics.drop("config", path)
        else:
            findings = findings_of(path, document.text if document is not None else None)
            paths = self.diagnostics.say(Speaker("config", path), findings, self._revision)
        self.publisher.publish(paths | {path})

    # ---- what comes back -----------------------------------------------------------------------------------------

    def _compiled(self, batch: Batch, part: Part) -> None:
        self.publisher.publish(self._outcome.compiled(batch, part))

    def _verdict(self, batch: Batch, part: Part) -> None:
        self.publisher.publish(self._outcome.verdict(batch, part))
        if batch.key.kind == "check":
            self._watcher.verdict(batch, part)

    def _ended(self, batch: Batch, by_itself: bool) -> None:
        if by_itself:
            self.publisher.publish(self._outcome.ended(batch))
        if batch.key.kind == "check" and not (by_itself and repeatable(batch)):
            self._checked.pop(batch.key.path, None)
        self._watcher.ended(batch, by_itself)

    # ---- small questions -----------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._revision += 1
        return self._revision

    def text(self, path: str) -> str | None:
        """Return a file's text as the editor has it, else as it is on disk; None where there is none."""
        document = self.documents.get(path)
        if document is not None:
            return document.text
        try:
            return Path(path).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def is_kernel_file(self, path: str) -> bool:
        """Say whether a file is CUDA, by its name or because gpuemu.toml names it."""
        if Path(path).suffix in SUFFIXES:
            return True
        project = self.projects.of(path)
        return project is not None and is_source(project, path)

    def _sources(self) -> set[str]:
        """Return the files that are shown as checked: those open, and those with findings."""
        return {path for path in self.documents if self.is_kernel_file(path)} | self.diagnostics.sources()

    def _dependents(self, paths: Sequence[str]) -> set[str]:
        found = set()
        for source in self._sources():
            project = self.projects.of(source)
            text = self.text(source)
            if project is None or text is None:
                continue
            specs = [request.spec for request in requests_for(project, source, text, self.settings, execute=False)]
            if any(depends_on(spec, path) for spec in specs for path in paths):
                found.add(source)
        return found


def _not_checked(path: str) -> Finding:
    message = f"Nothing of this file was checked: what {CONFIG_NAME} says of it has errors."
    return make("engine/not-executed", message, Place(path, Range.of(0, 0, 0, 1)))
