"""What is checked when, and what becomes of the results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from gpuemu_lsp.engine.check.model import CheckRequest, Replay
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.workers import Pool
from gpuemu_lsp.server.checks.requests import Order, content
from gpuemu_lsp.server.checks.result_filer import Outcome, repeatable
from gpuemu_lsp.server.checks.scheduler import Batch, Key, Listener, Part, Scheduler
from gpuemu_lsp.server.diagnostics.sources import Layer, Speaker
from gpuemu_lsp.server.documents.parsed_files import Reading
from gpuemu_lsp.server.session import HEADERS, Session

_TYPING_SECONDS = 0.25
_SAVE_SECONDS = 0.02
"""Several saves or watcher events of one moment are one."""


class Watcher(Protocol):
    """Who hears of checks, besides the client's diagnostics."""

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


@dataclass(frozen=True, slots=True)
class _Look:
    """A file as it was read: at which revision, what it says, what to check of it, and a digest of all that counts."""

    revision: int
    reading: Reading | None
    requests: tuple[CheckRequest, ...] = ()
    digest: str = ""


class Checker:
    """Asks the scheduler for checks and compilations, and files what they find."""

    def __init__(self, session: Session, pool: Pool, watcher: Watcher) -> None:
        self._session = session
        self._watcher = watcher
        self._outcome = Outcome(session.diagnostics, session.verdicts, session.readings)
        self._checked: dict[str, str] = {}
        self._orders: dict[str, Order] = {}
        listener = Listener(watcher.begun, watcher.started, self._compiled, self._found, self._verdict, self._ended)
        self.scheduler = Scheduler(pool, listener)

    # ---- what to run ---------------------------------------------------------------------------------------------

    def look_at(self, paths: Iterable[str]) -> None:
        """Check files that have changed; where the user checks by hand, only compile them."""
        if self._session.settings.check_on == "save":
            self.check_soon(paths)
            return
        for path in paths:
            self._compile_after(_SAVE_SECONDS, path)

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
            self.scheduler.after(_SAVE_SECONDS, key, partial(self._look, path), partial(self._check, path))

    async def check_all(self) -> int:
        """Check every registered kernel and every open file; return how many files that are."""
        session = self._session
        await session.readings.away(session.projects.read_all, tuple(session.folders))
        files = session.files()
        self.check_soon(files, Order(force=True))
        return len(files)

    def compile_when_quiet(self, path: str) -> None:
        """Compile a text that is being typed, or the open ones that include it."""
        if self._session.is_kernel_file(path):
            self._compile_after(_TYPING_SECONDS, path)
        for user in self._users(path):
            self._compile_after(_TYPING_SECONDS, user)

    def cancel(self, keys: Iterable[Key] | None = None) -> int:
        """Give up running and waiting checks, all of them by default; return how many those were."""
        return self.scheduler.cancel(keys) + (self._session.tasks.cancel() if keys is None else 0)

    def abandon(self, paths: Iterable[str]) -> None:
        """Give up the checks of some files."""
        self.cancel([Key("check", path) for path in paths])

    def forget(self, path: str) -> set[str]:
        """Let go of all that was found in checking a file; return the files whose diagnostics may have changed."""
        self.cancel([Key("check", path), Key("compile", path)])
        self._checked.pop(path, None)
        layers: tuple[Layer, ...] = ("config", "compile", "run")
        return {changed for layer in layers for changed in self._session.diagnostics.drop(layer, path)}

    async def wait_idle(self) -> None:
        """Wait until nothing waits or runs."""
        tasks = self._session.tasks
        while self.scheduler.busy or tasks.busy:
            await self.scheduler.wait_idle()
            await tasks.wait_idle()

    def smaller(self, request: CheckRequest, replay: Replay) -> None:
        """Show a minimised case, unless the text it was found in is gone."""
        if self._session.text(request.spec.source) == request.text:
            self._publish(self._outcome.smaller(request, replay, self._session.revision))

    async def _look(self, path: str) -> _Look:
        session = self._session
        revision = session.revision
        reading = await session.reading(path, fresh=True)
        if reading is None:
            return _Look(revision, None)
        requests = session.requests_of(reading, deep=self._orders.get(path, Order()).deep)
        return _Look(revision, reading, requests, await session.readings.away(content, reading, requests))

    def _check(self, path: str, look: _Look) -> None:
        order = self._orders.pop(path, Order())
        key = Key("check", path)
        if look.reading is None:  # deleted
            self.scheduler.start(key, (), look.revision)
            self._watcher.refused(path)
            return
        project = look.reading.project
        if not look.requests and (project is None or project.broken) and look.reading.kernels:
            self.cancel([key])
            self._checked.pop(path, None)
            self._publish(self._session.diagnostics.say(Speaker("run", path), [_not_checked(path)], look.revision))
            self._watcher.refused(path)
            return
        if not order.force and self._checked.get(path) == look.digest:
            self.scheduler.confirm(key, look.revision)
            self._publish(self._session.diagnostics.confirm(path, look.revision))
            return
        self.scheduler.cancel([Key("compile", path)])
        chosen = [item for item in look.requests if order.kernels is None or item.spec.name in order.kernels]
        if not chosen:
            self._watcher.refused(path)
        if order.kernels is not None and not chosen:
            return
        self.scheduler.start(key, chosen, look.revision, whole=order.kernels is None, deep=order.deep)
        if order.kernels is None and not order.deep:
            self._checked[path] = look.digest

    def _compile_after(self, seconds: float, path: str) -> None:
        self.scheduler.after(seconds, Key("compile", path), partial(self._glance, path), partial(self._compile, path))

    async def _glance(self, path: str) -> _Look:
        revision = self._session.revision
        reading = await self._session.reading(path)
        requests = () if reading is None else self._session.requests_of(reading, execute=False)
        return _Look(revision, reading, requests)

    def _compile(self, path: str, look: _Look) -> None:
        if path not in self._session.documents or look.reading is None or look.reading.project is None:
            return
        self._checked.pop(path, None)
        self._watcher.edited(path)
        self._publish(self._session.diagnostics.paths_of(path) | {path})  # marks what the last save's run found
        self.scheduler.start(Key("compile", path), look.requests, look.revision)

    def _users(self, header: str) -> set[str]:
        """Return the open documents that include a header which is being typed."""
        if not header.endswith(HEADERS):
            return set()
        return self._session.dependents([header]) & self._session.documents.keys() - {header}

    # ---- what comes back -----------------------------------------------------------------------------------------

    def _compiled(self, batch: Batch, part: Part) -> None:
        self._publish(self._outcome.compiled(batch, part))

    def _found(self, batch: Batch, part: Part) -> None:
        self._publish(self._outcome.found(batch, part))

    def _verdict(self, batch: Batch, part: Part) -> None:
        self._publish(self._outcome.verdict(batch, part))
        if batch.key.kind == "check":
            self._watcher.verdict(batch, part)

    def _ended(self, batch: Batch, by_itself: bool) -> None:
        if by_itself:
            self._publish(self._outcome.ended(batch))
        if batch.key.kind == "check" and not (by_itself and repeatable(batch)):
            self._checked.pop(batch.key.path, None)
        self._watcher.ended(batch, by_itself)

    def _publish(self, paths: Iterable[str]) -> None:
        self._session.publisher.publish(paths)


def _not_checked(path: str) -> Finding:
    message = f"Nothing of this file was checked: what {CONFIG_NAME} says of it has errors."
    return make("engine/not-executed", message, Place(path, Range.of(0, 0, 0, 1)))
