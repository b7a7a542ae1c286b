"""The items the client's test explorer shows, and notification of their changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gpuemu_lsp.server.checks.stored_failures import StoredFailures
from gpuemu_lsp.server.events import BatchEnded, BatchStarted, PlansRead, ServerEvent, StoredFailuresChanged
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.test_explorer.items import TestItem, item_to_client, items_of

TESTS_CHANGED = "gpuemu/testsChanged"


class TestExplorer:
    """Items by file, as last sent. The client is notified of changes once it has requested the items."""

    __test__ = False

    def __init__(self, session: Session, failures: StoredFailures, notify: Callable[[str, Any], None]) -> None:
        self._session = session
        self._failures = failures
        self._notify = notify
        self._sent: dict[str, list[TestItem]] = {}
        self._dtypes: dict[str, dict[str, tuple[str, ...]]] = {}
        """Dtypes of the kernels of each file whose plans were read, by the identity of the kernel."""
        self.active = False
        """Whether the client has requested the items."""

    def items(self, path: str) -> list[TestItem]:
        """Return the items of a file as last parsed."""
        parsed = self._session.parsed_files.last(path)
        if parsed is None or parsed.project is None:
            return []
        failures = self._failures.of(parsed.project.root)
        return items_of(self._session.uri_of(path), parsed, failures, self._dtypes.get(path, {}), self._label(path))

    def _label(self, path: str) -> str:
        """Return a file's name, with its folders below the workspace folder where several files have the name."""
        same = [other for other in self._session.files() if Path(other).name == Path(path).name]
        if len(same) < 2:
            return Path(path).name
        root = Path(os.path.commonpath([Path(other).parent for other in same]))
        return Path(path).relative_to(root).as_posix() if Path(path).is_relative_to(root) else path

    async def discover(self) -> list[TestItem]:
        """Return all items: those of registered kernels and of open files."""
        self.active = True
        for path in self._session.files():
            parsed = await self._session.parse(path)
            if parsed is not None and await self._session.parsed_files.read_plans(parsed):
                self._keep_dtypes(path)
            self._sent[path] = self.items(path)
        return [item for items in self._sent.values() for item in items]

    def on_event(self, event: ServerEvent) -> None:
        """Update the items of a checked file, and of all files of a project whose stored failures have changed."""
        match event:
            case BatchStarted(batch) | BatchEnded(batch, completed=True) if batch.key.kind == "check":
                # Also before: a client drops the states of items that it does not have yet.
                self._update([batch.key.path])
            case PlansRead(path):
                self._keep_dtypes(path)
                self._update([path])
            case StoredFailuresChanged(root):
                self._update(path for path in self._session.files() if Path(path).is_relative_to(root))

    def _keep_dtypes(self, path: str) -> None:
        """Take the dtypes of a file's kernels from their plans, which were read before."""
        parsed = self._session.parsed_files.last(path)
        if parsed is not None:
            self._dtypes[path] = {
                entry.id: tuple(dict.fromkeys(plan.dtype for plan in entry.plans)) for entry in parsed.entries
            }

    def _update(self, paths: Iterable[str]) -> None:
        """Send the items of the files where they differ from those last sent."""
        if not self.active:
            return
        for path in paths:
            items = self.items(path)
            if items != self._sent.get(path, []):
                self._sent[path] = items
                uri = self._session.uri_of(path)
                self._notify(TESTS_CHANGED, {"scope": [uri], "tests": [item_to_client(item, uri) for item in items]})
