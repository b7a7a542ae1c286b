"""Minimisation of a stored failing case in the background; the smaller case replaces the finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuemu_lsp.engine.check.model import MinimisedFailure
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.run import seconds_for
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.model import Cancelled, Job
from gpuemu_lsp.engine.workers.wire import from_json, to_json
from gpuemu_lsp.server.checks.requests import requests_named
from gpuemu_lsp.server.checks.result_filer import ResultFiler
from gpuemu_lsp.server.checks.stored_failures import StoredFailures
from gpuemu_lsp.server.session import Session

MAX_RUNS = 300
_EXTRA_SECONDS = 90.0
"""Time for the minimisation, in addition to that of the check it starts from."""


class CaseMinimiser:
    """Minimises cases, one at a time for each file and case; ``show_message`` receives the outcome for the user."""

    def __init__(
        self, session: Session, filer: ResultFiler, failures: StoredFailures, show_message: Callable[[str], None]
    ) -> None:
        self._session = session
        self._filer = filer
        self._failures = failures
        self._show_message = show_message
        self._busy: set[tuple[str, str]] = set()

    async def start(self, path: str, case: str, kernel: str | None = None, dtype: str | None = None) -> int:
        """Start, unless the case is being minimised already; return the number of kernels that may have the case."""
        requests = [
            request
            for request in await requests_named(self._session, path, kernel)
            if request.options.store_root is not None
        ]
        if not requests or (path, case) in self._busy:
            return 0
        self._busy.add((path, case))
        self._session.jobs.background(self._run(path, case, dtype, requests))
        return len(requests)

    async def _run(self, path: str, case: str, dtype: str | None, requests: list[CheckRequest]) -> None:
        try:
            smaller = False
            for request in requests:
                smaller |= await self._minimise(request, case, dtype)
            if not smaller:
                self._show_message("This failing case is no longer stored: check the file again.")
            await self._failures.refresh(requests[0].root)
        finally:
            self._busy.discard((path, case))

    async def _minimise(self, request: CheckRequest, case: str, dtype: str | None) -> bool:
        """Minimise a case of one kernel; return whether it has the case, or the job failed."""
        payload = {
            "request": to_json(request),
            "case": case,
            "dtype": dtype,
            "strategy": "all",
            "max_runs": MAX_RUNS,
        }
        seconds = seconds_for(request) + _EXTRA_SECONDS
        job = Job("minimize", payload, wall_seconds=seconds, taint=request.user_code)
        result = await self._session.jobs.run(job, f"Minimizing a case of {request.spec.name}")
        if isinstance(result.ending, Cancelled):
            return True
        for value in result.named("smaller"):
            minimised = from_json(MinimisedFailure, value)
            if minimised.replay.verdict in ("still fails", "changed"):
                self._filer.replace_case(request, minimised.replay)
            self._show_message(outcome_text(request, minimised))
        if not result.done:
            self._show_message(ending_finding(request, result.ending).message)
        return bool(next(result.named("smaller"), None)) or not result.done


def outcome_text(request: CheckRequest, result: MinimisedFailure) -> str:
    """Return the outcome in words; case ids mean nothing to a reader."""
    name = request.spec.name
    if result.replay.verdict == "fixed":
        return f"{name}: this case no longer fails."
    if result.replay.verdict == "not executed":
        return f"{name}: this case could not be run."
    before, after = (_sizes(dims) for dims in (result.original_dims, result.replay.dims))
    if result.case is None:
        return f"{name}: no smaller case fails{f' ({before})' if before else ''}."
    runs = f"{result.runs} run{'' if result.runs == 1 else 's'}"
    if before == after:
        return f"{name}: minimized to simpler values{f' at {after}' if after else ''}, in {runs}."
    return f"{name}: minimized from {before} to {after}, in {runs}."


def _sizes(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in dims.items())
