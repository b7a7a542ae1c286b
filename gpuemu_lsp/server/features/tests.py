"""``gpuemu/discoverTests``, ``runTests`` and ``abortTests``, in the shape of rust-analyzer's test explorer messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.server.checks.stored_failures import Failures
from gpuemu_lsp.server.client.params import asked
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.test_explorer.items import Test, tests_of, to_client
from gpuemu_lsp.server.test_explorer.runs import TestRuns

DISCOVER, RUN, ABORT = "gpuemu/discoverTests", "gpuemu/runTests", "gpuemu/abortTests"
CHANGED = "gpuemu/testsChanged"


class Explorer:
    """What the client has been told of the tests; it hears of changes once it has asked for them."""

    def __init__(self, server: Server, session: Session, failures: Failures) -> None:
        self._server = server
        self._session = session
        self._failures = failures
        self._told: dict[str, list[Test]] = {}
        self.asked = False

    def tests(self, path: str) -> list[Test]:
        """Return the tests of a file as it was last read."""
        reading = self._session.readings.last(path)
        if reading is None or reading.project is None:
            return []
        return tests_of(self._session.uri_of(path), reading, self._failures.of(reading.project.root))

    async def everything(self) -> list[Test]:
        """Return all tests: of registered kernels, and of the open files."""
        self.asked = True
        for path in self._session.files():
            await self._session.reading(path)
            self._told[path] = self.tests(path)
        return [test for tests in self._told.values() for test in tests]

    def refresh(self, paths: Iterable[str]) -> None:
        """Tell the client about files whose tests are others than it knows."""
        if not self.asked:
            return
        for path in paths:
            now = self.tests(path)
            if now != self._told.get(path, []):
                self._told[path] = now
                uri = self._session.uri_of(path)
                tests = [to_client(test, uri) for test in now]
                self._server.protocol.notify(CHANGED, {"scope": [uri], "tests": tests})


def register(server: Server, session: Session, failures: Failures, explorer: Explorer, runs: TestRuns) -> None:
    """Add the handlers."""

    @server.feature(DISCOVER)
    async def discover(_: Any) -> dict[str, Any]:
        await session.readings.away(session.projects.read_all, tuple(session.folders))
        for project in session.projects.known():
            if project.config is not None:
                await failures.refresh(project.root)
        tests = await explorer.everything()
        return {"tests": [to_client(test, test.id.partition("#")[0]) for test in tests]}

    @server.feature(RUN)
    async def run(params: Any) -> dict[str, Any]:
        given = asked(params)
        run_id, include, exclude = given.get("runId"), given.get("include"), given.get("exclude") or []
        if not isinstance(run_id, str) or not (include is None or _are_ids(include)) or not _are_ids(exclude):
            raise JsonRpcInvalidParams("gpuemu/runTests takes runId, include (ids or null), exclude and deep")
        if include is None:
            include = [test.id for test in await explorer.everything() if test.kind == "kernel"]
        for path in {path_of(item.partition("#")[0]) for item in include}:
            if path is not None:
                await session.reading(path)
        chosen = [item for item in include if item not in exclude and item.partition("#")[0] not in exclude]
        return {"queued": runs.start(run_id, chosen, bool(given.get("deep")))}

    @server.feature(ABORT)
    def abort(params: Any) -> None:
        runs.abort(str(asked(params).get("runId")))


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
