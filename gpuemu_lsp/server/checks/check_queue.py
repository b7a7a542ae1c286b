"""Queue of checks: decides from edits, saves and commands what to compile, what to check, and what to leave out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.jobs.requests.targets import own_folder
from gpuemu_lsp.engine.jobs.run import fingerprinted
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.headers.kernel_files import HEADERS
from gpuemu_lsp.engine.subjects.languages import has_programs
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.server.checks.requests import (
    CheckRunOptions,
    content_digest,
    in_order_of_interest,
    requests_of,
)
from gpuemu_lsp.server.checks.result_filer import is_repeatable
from gpuemu_lsp.server.checks.scheduler import BatchScheduler
from gpuemu_lsp.server.diagnostics.sources import DiagnosticSource, Layer
from gpuemu_lsp.server.documents.parsed_files import ParsedFile, is_python, kernel_id, text_on_disk
from gpuemu_lsp.server.events import (
    BatchEnded,
    CheckSkipped,
    EventBus,
    KernelFinished,
    PauseChanged,
    PlansRead,
    ServerEvent,
    TextEdited,
)
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.work import BatchKey

_TYPING_SECONDS = 0.25
_SAVE_SECONDS = 0.0
"""A save is not delayed: its file watcher event finds the same content, and a newer save supersedes it."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A file at a revision: its parse, its requests, and a digest of all that its check reads.

    ``saved``: its text was found to be that on disk, although the client has not said that it saved it.
    """

    revision: int
    parsed: ParsedFile | None
    requests: tuple[CheckRequest, ...] = ()
    digest: str = ""
    saved: bool = False


class CheckQueue:
    """Requests batches from the scheduler: compilations as the user types, checks of what was saved."""

    def __init__(self, session: Session, scheduler: BatchScheduler, events: EventBus) -> None:
        self._session = session
        self._scheduler = scheduler
        self._events = events
        self._checked: dict[str, str] = {}
        """Digest of each file whose last check, whole and not deep, is running or has a repeatable result."""
        self._options: dict[str, CheckRunOptions] = {}
        """Options of pending checks, merged from all requests since the last check began."""
        self._unread: dict[str, ParsedFile] = {}
        """Files of running checks whose plans are to be read once one of their kernels has its result."""
        self._held: set[str] = set()
        """Files whose automatic checks wait for the end of a pause."""
        self.paused = False

    # ---- requests ------------------------------------------------------------------------------------------------

    def file_opened(self, path: str) -> None:
        """Check a file that was opened, or only compile it where the user checks manually."""
        if self.paused:
            self._held.add(path)
        elif self._session.settings.check_on == "save":
            self.check([path])
        else:
            self._compile_after(_SAVE_SECONDS, path, edited=False)

    def files_changed(self, paths: Iterable[str]) -> None:
        """Check files that were saved; only compile them where the user checks manually."""
        if self.paused:
            self._held |= set(paths)
            return
        if self._session.settings.check_on == "save":
            self.check(paths)
            return
        for path in paths:
            self._compile_after(_SAVE_SECONDS, path)

    def check(
        self, paths: Iterable[str], options: CheckRunOptions | None = None, seconds: float = _SAVE_SECONDS
    ) -> None:
        """Check files after some seconds; unless forced, only those whose content differs from that of the last check.

        The check supersedes a running one of the file. It therefore includes all kernels if that one does: a check of
        one kernel must not leave the others without a result.
        """
        for path in paths:
            key = BatchKey("check", path)
            merged = (options or CheckRunOptions()).merge(self._options.get(path))
            running = self._scheduler.running(key)
            if merged.kernels is not None and running is not None and running.whole:
                merged = replace(merged, kernels=None, deep=merged.deep or running.deep)
            self._options[path] = merged
            self._scheduler.cancel_pending(BatchKey("compile", path))
            prepare, begin = partial(self._prepare_check, path), partial(self._check, path)
            self._scheduler.debounce(seconds, key, prepare, begin)

    async def check_all(self) -> int:
        """Check every registered kernel and every open file; return the number of files."""
        session = self._session
        await session.parsed_files.run_in_thread(session.projects.read_all, tuple(session.folders))
        files = session.files()
        self.check(files, CheckRunOptions(force=True))
        return len(files)

    def text_edited(self, path: str) -> None:
        """Compile an edited text once typing pauses, or the open files that include it.

        A text without a file is checked: it is not saved.
        """
        document = self._session.documents.get(path)
        untitled = document is not None and document.kind == "untitled"
        if untitled and not self.paused and self._session.settings.check_on == "save":
            self.check([path], seconds=self._typing_seconds)
        elif self._session.may_have_kernels(path):
            self._compile_after(self._typing_seconds, path)
        for user in self._open_includers(path):
            self._compile_after(self._typing_seconds, user)

    @property
    def _typing_seconds(self) -> float:
        """Seconds without an edit after which a text is compiled; the edits of an agent are complete."""
        return _SAVE_SECONDS if self._session.settings.agent else _TYPING_SECONDS

    def set_paused(self, paused: bool) -> None:
        """Pause or resume the checks that opened, edited and saved files start; requested checks run all the same.

        A pause cancels what runs. Its files, and those that changed during the pause, are checked when it ends.
        """
        if paused == self.paused:
            return
        self.paused = paused
        if paused:
            active = {key for key in self._scheduler.active if key.kind != "config"}
            self._held |= {key.path for key in active}
            self._scheduler.cancel(active)
            self._forget_pending(list(self._options))
        else:
            held, self._held = self._held, set()
            self.files_changed(path for path in held if path in self._session.checked_files())
        self._events.publish(PauseChanged(paused))

    def cancel(self) -> int:
        """Cancel all checks, and the jobs that show progress; return their number."""
        count = self._scheduler.cancel() + self._session.jobs.cancel()
        self._forget_pending(list(self._options))
        return count

    def cancel_checks(self, paths: Iterable[str]) -> None:
        """Cancel the checks of some files."""
        cancelled = list(paths)
        self._scheduler.cancel([BatchKey("check", path) for path in cancelled])
        self._forget_pending(cancelled)

    def cancel_compilation(self, path: str) -> None:
        """Cancel the compilation of a file."""
        self._scheduler.cancel([BatchKey("compile", path)])

    def drop_file(self, path: str) -> set[str]:
        """Cancel and drop everything of a file; return the paths whose diagnostics may have changed."""
        self._scheduler.cancel([BatchKey("check", path), BatchKey("compile", path)])
        self._forget_pending([path])
        self._held.discard(path)
        self._checked.pop(path, None)
        self._unread.pop(path, None)
        self._session.results.drop(path, frozenset())
        layers: tuple[Layer, ...] = ("config", "compile", "run")
        return {changed for layer in layers for changed in self._session.diagnostics.drop(layer, path)}

    @property
    def busy(self) -> bool:
        """Whether any batch is pending or running."""
        return self._scheduler.busy

    async def wait_idle(self) -> None:
        """Wait until no batch is pending or running, and no background coroutine runs."""
        jobs = self._session.jobs
        while self._scheduler.busy or jobs.busy:
            await self._scheduler.wait_idle()
            await jobs.wait_idle()

    def on_event(self, event: ServerEvent) -> None:
        """Forget the digest of a check that was not completed, or that would not repeat; read plans that are shown."""
        match event:
            case KernelFinished(batch) if batch.key.kind == "check":
                self._read_plans(batch.key.path)
            case BatchEnded(batch, completed) if batch.key.kind == "check":
                self._read_plans(batch.key.path)
                if not (completed and is_repeatable(batch)):
                    self._checked.pop(batch.key.path, None)

    def _read_plans(self, path: str) -> None:
        """Read the plans that lenses and the test explorer show: the kernel at which the user is has its result."""
        parsed = self._unread.pop(path, None)
        if parsed is not None:
            self._session.jobs.background(self._read(parsed))

    async def _read(self, parsed: ParsedFile) -> None:
        if await self._session.parsed_files.read_plans(parsed):
            self._events.publish(PlansRead(parsed.path))

    def _forget_pending(self, paths: Iterable[str]) -> None:
        """Report the checks that were cancelled before they began: no batch does."""
        for path in paths:
            if self._options.pop(path, None) is not None:
                self._events.publish(CheckSkipped(path, cancelled=True))

    # ---- checks --------------------------------------------------------------------------------------------------

    async def _prepare_check(self, path: str) -> _Snapshot:
        session = self._session
        revision = session.revision  # before parsing: an edit meanwhile is newer than the snapshot
        parsed = await session.parse(path, fresh=True)
        await self._compare_with_disk(path)
        if parsed is None:
            return _Snapshot(revision, None)
        requests = requests_of(session, parsed, deep=self._options.get(path, CheckRunOptions()).deep)
        digest = await session.parsed_files.run_in_thread(content_digest, parsed, requests)
        return _Snapshot(revision, parsed, requests, digest)

    def _check(self, path: str, snapshot: _Snapshot) -> None:
        options = self._options.pop(path, CheckRunOptions())
        key = BatchKey("check", path)
        session, parsed = self._session, snapshot.parsed
        if parsed is None:  # the file was deleted: an empty batch drops its results
            self._scheduler.start(key, (), snapshot.revision)
            self._events.publish(CheckSkipped(path))
            return
        if not self._attends_to(path):
            self._events.publish(CheckSkipped(path))
            return
        self._file_hints(parsed, snapshot.revision)
        self._check_headers(parsed)
        project = parsed.project
        if not snapshot.requests and (project is None or project.broken) and parsed.kernels:
            self._scheduler.cancel([key])
            self._checked.pop(path, None)
            source = DiagnosticSource("run", path)
            session.publisher.publish(session.diagnostics.replace(source, [_not_checked(path)], snapshot.revision))
            self._events.publish(CheckSkipped(path))
            return
        if not options.force and self._checked.get(path) == snapshot.digest:
            self._scheduler.revalidate(key, snapshot.revision)
            session.publisher.publish(session.diagnostics.revalidate(path, snapshot.revision) | {path})
            return
        self._scheduler.cancel([BatchKey("compile", path)])  # the check compiles as well
        verdicts = "run" if options.deep else "record" if options.force else "reuse"
        # A save must be quick; commands compile what a launch of each case has.
        specialisations = "general" if verdicts == "reuse" else "all"
        chosen = [
            replace(item, options=replace(item.options, verdicts=verdicts, specialisations=specialisations))
            for item in in_order_of_interest(parsed, session.documents.get(path), snapshot.requests)
            if options.kernels is None or kernel_id(item.spec) in options.kernels
        ]
        if not chosen:
            self._events.publish(CheckSkipped(path))
        if options.kernels is not None and not chosen:
            return
        document = session.documents.get(path)
        edited = document is not None and document.edited_since(0)
        whole = options.kernels is None
        self._scheduler.start(key, chosen, snapshot.revision, whole=whole, deep=options.deep, edited=edited)
        if chosen:
            self._unread[path] = parsed
        if options.kernels is None and not options.deep:
            self._checked[path] = snapshot.digest

    # ---- compilations --------------------------------------------------------------------------------------------

    def _compile_after(self, seconds: float, path: str, edited: bool = True) -> None:
        key = BatchKey("compile", path)
        begin = partial(self._compile, path, edited)
        self._scheduler.debounce(seconds, key, partial(self._prepare_compilation, path), begin)

    async def _prepare_compilation(self, path: str) -> _Snapshot:
        revision = self._session.revision
        parsed = await self._session.parse(path)
        saved = await self._compare_with_disk(path)
        requests = () if parsed is None else requests_of(self._session, parsed, execute=False)
        return _Snapshot(revision, parsed, requests, saved=saved)

    async def _compare_with_disk(self, path: str) -> bool:
        """Record whether a document has the text on disk; return whether it was saved without a notification."""
        session, document = self._session, self._session.documents.get(path)
        if document is None:
            return False
        revision, text = document.revision, document.text
        on_disk = await session.parsed_files.run_in_thread(text_on_disk, path)
        document.differs_from_disk = on_disk is not None and on_disk != text
        if on_disk != text or document.revision != revision or not document.edited_since(document.saved):
            return False
        document.saved = revision
        return True

    def _compile(self, path: str, edited: bool, snapshot: _Snapshot) -> None:
        session, parsed = self._session, snapshot.parsed
        document = session.documents.get(path)
        if document is None or parsed is None or parsed.project is None or not self._attends_to(path):
            return
        self._file_hints(parsed, snapshot.revision)
        if snapshot.saved and not self.paused and session.settings.check_on == "save":
            self.check([path])
            return
        if edited:
            self._checked.pop(path, None)
            self._events.publish(TextEdited(path))
        session.publisher.publish(session.diagnostics.paths_of(path) | {path})  # marks the last run's findings as stale
        if self.paused:
            self._held.add(path)
            return
        if parsed.entries and not snapshot.requests:
            return
        requests = in_order_of_interest(parsed, session.documents.get(path), snapshot.requests)
        self._scheduler.start(BatchKey("compile", path), requests, snapshot.revision)

    def _attends_to(self, path: str) -> bool:
        """Return whether a file has kernels, or results of kernels that it had; other Python files have neither."""
        return self._session.is_kernel_file(path) or path in self._session.diagnostics.files()

    def _file_hints(self, parsed: ParsedFile, revision: int) -> None:
        """Publish what is not known of a ``.py`` file without running it."""
        if not is_python(parsed.path):
            return
        diagnostics, source = self._session.diagnostics, DiagnosticSource("config", parsed.path)
        if parsed.findings or diagnostics.findings_from(source):
            findings = fingerprinted(list(parsed.findings), parsed.project.root if parsed.project is not None else "")
            self._session.publisher.publish(diagnostics.replace(source, findings, revision))

    def _check_headers(self, parsed: ParsedFile) -> None:
        """Check the headers whose kernels a source launches: those with results, and all if it has no kernel itself."""
        if not has_programs(parsed.path):
            return
        with_results = self._session.checked_files()
        own = None if parsed.project is None else own_folder(parsed.project, Path(parsed.path))
        for header in parsed.headers:
            only_there = own is not None and not parsed.entries and Path(header).is_relative_to(own)
            if header.endswith(HEADERS) and (only_there or header in with_results):
                self._checked.pop(header, None)  # its launches may have changed, which its own content does not show
                self.check([header])

    def _open_includers(self, header: str) -> set[str]:
        """Return the open documents that include a header."""
        if not header.endswith(HEADERS):
            return set()
        return self._session.dependents([header]) & self._session.documents.keys() - {header}


def _not_checked(path: str) -> Finding:
    message = f"This file was not checked: its entry in {CONFIG_NAME} has errors."
    return make("engine/not-executed", message, Place(path, Range.of(0, 0, 0, 1)))
