"""Test runs: what was asked for, what state each test is in, and that every run ends, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.server.checks.queue import Checker
from gpuemu_lsp.server.checks.requests import Order, kernel_id
from gpuemu_lsp.server.checks.scheduler import Batch, Part
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.test_explorer.items import Test, parse_id

_STATES = {
    "passed": "passed",
    "unreferenced": "passed",
    "failed": "failed",
    "error": "errored",
    "not-executed": "skipped",
}


@dataclass(slots=True)
class _Run:
    """One run: per file the kernels it still waits for, by id of the kernel's test."""

    id: str
    waiting: dict[str, set[str]] = field(default_factory=dict)
    cancelled: bool = False


class TestRuns:
    """Turns what the scheduler does into states of tests.

    ``tests`` gives those of a file, ``asked`` says whether the client knows of any.
    """

    def __init__(
        self,
        session: Session,
        checker: Checker,
        notify: Callable[[str, Any], None],
        tests: Callable[[str], list[Test]],
        asked: Callable[[], bool],
    ) -> None:
        self._session = session
        self._checker = checker
        self._notify = notify
        self._tests = tests
        self._asked = asked
        self._runs: dict[str, _Run] = {}
        self._judged: set[str] = set()

    def start(self, run_id: str, include: Iterable[str], deep: bool) -> list[str]:
        """Begin a run; return the ids of all that will get a state."""
        run = self._runs[run_id] = _Run(run_id)
        orders: dict[str, set[str] | None] = {}
        for identity in include:
            wanted = parse_id(identity)
            path = path_of(wanted.uri)
            if path is None:
                continue
            kernels = {test.id for test in self._tests(path) if test.kind == "kernel"}
            mine = {item for item in kernels if wanted.kernel is None or parse_id(item).kernel == wanted.kernel}
            if mine:
                run.waiting[path] = run.waiting.get(path, set()) | mine
                orders[path] = None if run.waiting[path] == kernels else set(run.waiting[path])
        queued = []
        for path, chosen in orders.items():
            names = None if chosen is None else frozenset(self._names(path, chosen))
            for test in self._below(path, run.waiting[path]):
                queued.append(test.id)
                self._state(test.id, "enqueued", run)
            self._checker.check_soon([path], Order(force=True, deep=deep, kernels=names))
        self._settle(run)
        return queued

    def abort(self, run_id: str) -> bool:
        """Give a run up; the checks that only it asked for end."""
        run = self._runs.get(run_id)
        if run is None:
            return False
        run.cancelled = True
        paths = list(run.waiting)
        self._checker.abandon(paths)
        for path in paths:
            self.refused(path, "The run was cancelled.")
        self._settle(run)
        return True

    def close(self) -> None:
        """End every run."""
        for run_id in list(self._runs):
            self.abort(run_id)

    # ---- what the scheduler says ---------------------------------------------------------------------------------

    def begun(self, batch: Batch) -> None:
        """Nothing yet: a batch may wait for a worker."""

    def started(self, batch: Batch, part: Part) -> None:
        """A kernel's tests run."""
        self._kernel_states(batch, part, lambda _: {"state": "started"}, ends=False)

    def verdict(self, batch: Batch, part: Part) -> None:
        """A kernel's tests have ended."""
        self._judged.add(batch.key.path)
        self._kernel_states(batch, part, lambda test: _outcome(part, test), ends=True)

    def ended(self, batch: Batch, by_itself: bool) -> None:
        """What a batch did not come to will not be known from it."""
        if batch.key.kind == "check":
            why = "It is no kernel of the file any more." if by_itself else "A newer check took its place."
            self.refused(batch.key.path, why)

    def refused(self, path: str, why: str = "There is nothing to check: see the diagnostics.") -> None:
        """Skip what runs still wait for in a file."""
        for run in list(self._runs.values()):
            for test in self._below(path, run.waiting.pop(path, set())):
                self._state(test.id, "skipped", run, message=why)
            self._settle(run)

    def stale(self, path: str) -> None:
        """Say that the states of a file's tests are about an older text."""
        if path not in self._judged:
            return
        self._judged.discard(path)
        for test in self._tests(path):
            if test.kind != "file":
                self._state(test.id, "stale", None)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _kernel_states(self, batch: Batch, part: Part, state: Callable[[Test], dict[str, Any]], ends: bool) -> None:
        if batch.key.kind != "check":
            return
        path = batch.key.path
        mine = kernel_id(part.request.spec)
        tops = {test.id for test in self._tests(path) if test.kind == "kernel" and parse_id(test.id).kernel == mine}
        runs: list[_Run | None] = [run for run in self._runs.values() if tops & run.waiting.get(path, set())]
        for run in runs or [None]:
            for test in self._below(path, tops):
                self._state(test.id, run=run, **state(test))
            if run is not None and ends:
                if part.report is not None:
                    self._output(run, part, next(iter(tops)))
                run.waiting[path] -= tops
                if not run.waiting[path]:
                    del run.waiting[path]
                self._settle(run)

    def _output(self, run: _Run, part: Part, test: str) -> None:
        report = part.report
        assert report is not None
        lines = [f"{report.name}: {report.status}, {report.cases.passed} of {report.cases.run} cases"]
        lines += [f"{item.severity.value}: {item.rule}: {item.message}" for item in part.findings]
        self._notify("gpuemu/testOutput", {"runId": run.id, "id": test, "text": "\r\n".join(lines) + "\r\n"})

    def _state(self, identity: str, state: str, run: _Run | None, **more: Any) -> None:
        if run is None and not self._asked():
            return  # a client without a test explorer need not hear of tests
        told = {key: value for key, value in more.items() if value is not None}
        if "path" in told:
            path, line = told.pop("path"), told.pop("line")
            told["uri"] = self._session.uri_of(path)
            told["range"] = {"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}}
        self._notify(
            "gpuemu/testState", {"runId": run.id if run is not None else None, "id": identity, "state": state, **told}
        )

    def _settle(self, run: _Run) -> None:
        if not run.waiting and self._runs.pop(run.id, None) is not None:
            self._notify("gpuemu/testsEnded", {"runId": run.id, "cancelled": run.cancelled})

    def _below(self, path: str, tops: set[str]) -> list[Test]:
        """Return kernels' tests and everything below them."""
        return [
            test for test in self._tests(path) if test.kind != "file" and (test.id in tops or _top(test.id) in tops)
        ]

    def _names(self, path: str, tops: set[str]) -> Iterable[str]:
        wanted = {parse_id(item).kernel for item in tops}
        reading = self._session.readings.last(path)
        entries = reading.entries if reading is not None else ()
        return (entry.spec.name for entry in entries if kernel_id(entry.spec) in wanted)


def _top(identity: str) -> str:
    uri, _, rest = identity.partition("#")
    return f"{uri}#{rest.partition('/')[0]}"


def _outcome(part: Part, test: Test) -> dict[str, Any]:
    """Return state, message and values of a test that has ended."""
    report = part.report
    assert report is not None
    wanted = parse_id(test.id)
    errors = [item for item in part.findings if item.severity is Severity.ERROR]
    if wanted.dtype is not None:
        errors = [item for item in errors if item.dtype in (None, wanted.dtype)]
    if wanted.case is not None:
        errors = [item for item in errors if item.case in (None, wanted.case)]
    state = _STATES.get(report.status, "errored")
    if state == "failed" and not errors:
        if wanted.case is not None:  # nobody says that it was run, or that it passed
            return {"state": "skipped", "message": "This run shows the failure with another case."}
        state = "passed"
    told: dict[str, Any] = {"state": state, "duration": report.timing_ms.get("total")}
    if state == "passed":
        return told
    shown = errors or [item for item in part.findings if item.rule.startswith("engine/")]
    if shown:
        told["message"] = shown[0].message
        expected, actual = _values(shown[0])
        told["expected"], told["actual"] = expected, actual
        told["path"], told["line"] = shown[0].place.path, shown[0].place.range.start.line
    return told


def _values(finding: Finding) -> tuple[str | None, str | None]:
    """Return the first wrong elements as two texts to compare."""
    rows = finding.data.get("elements")
    name = finding.data.get("output", "")
    if not isinstance(rows, list):
        rows = [{key: finding.data.get(key) for key in ("index", "expected", "actual")}]
    columns: dict[str, list[str]] = {"expected": [], "actual": []}
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("index"), list):
            continue
        index = ", ".join(map(str, row["index"]))  # type: ignore[arg-type]
        for key, lines in columns.items():
            lines.append(f"{name}[{index}] = {row.get(key)}")
    if not columns["expected"]:
        return None, None
    return "\n".join(columns["expected"]), "\n".join(columns["actual"])
