"""A stored case made smaller in the background; the smaller one takes its place among the diagnostics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gpuemu_lsp.engine.check.model import CheckRequest, MinimisedFailure
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.run import seconds_for
from gpuemu_lsp.engine.workers import Job
from gpuemu_lsp.engine.workers.model import Cancelled
from gpuemu_lsp.engine.workers.wire import from_json, to_json
from gpuemu_lsp.server.checks.queue import Checker
from gpuemu_lsp.server.session import Session

MAX_RUNS = 300
_EXTRA_SECONDS = 90.0


class Minimiser:
    """Runs the minimiser for one case at a time per file; ``told`` gets a sentence for the user, ``done`` the root."""

    def __init__(
        self, session: Session, checker: Checker, told: Callable[[str], None], done: Callable[[str], Awaitable[None]]
    ) -> None:
        self._session = session
        self._checker = checker
        self._told = told
        self._done = done
        self._busy: set[tuple[str, str]] = set()

    async def start(self, path: str, case: str, kernel: str | None = None, dtype: str | None = None) -> int:
        """Begin, unless the same is under way; return how many kernels of the file may have the case."""
        requests = [
            request
            for request in await self._session.requests(path)
            if kernel in (None, request.spec.name) and request.options.store_root is not None
        ]
        if not requests or (path, case) in self._busy:
            return 0
        self._busy.add((path, case))
        self._session.tasks.background(self._run(path, case, dtype, requests))
        return len(requests)

    async def _run(self, path: str, case: str, dtype: str | None, requests: list[CheckRequest]) -> None:
        try:
            found = False
            for request in requests:
                found |= await self._one(request, case, dtype)
            if not found:
                self._told(f"There is no stored case {case} of this file.")
            await self._done(requests[0].root)
        finally:
            self._busy.discard((path, case))

    async def _one(self, request: CheckRequest, case: str, dtype: str | None) -> bool:
        payload = {
            "request": to_json(request),
            "case": case,
            "dtype": dtype,
            "strategy": "all",
            "max_runs": MAX_RUNS,
        }
        seconds = seconds_for(request) + _EXTRA_SECONDS
        job = Job("minimize", payload, wall_seconds=seconds, taint=request.spec.reference)
        gathered = await self._session.tasks.run(job, f"Minimising a case of {request.spec.name}")
        if isinstance(gathered.ending, Cancelled):
            return True
        for value in gathered.named("smaller"):
            result = from_json(MinimisedFailure, value)
            if result.replay.verdict in ("still fails", "changed"):
                self._checker.smaller(request, result.replay)
            self._told(_sentence(request, result))
        if not gathered.done:
            self._told(ending_finding(request, gathered.ending).message)
        return bool(next(gathered.named("smaller"), None)) or not gathered.done


def _sentence(request: CheckRequest, result: MinimisedFailure) -> str:
    name = request.spec.name
    if result.replay.verdict == "fixed":
        return f"Case {result.original} of {name} does not fail any more."
    if result.replay.verdict == "not executed":
        return f"Case {result.original} of {name} could not be run."
    sizes = ", ".join(f"{key} = {size}" for key, size in result.replay.dims.items())
    if result.case is None:
        return f"Nothing smaller than case {result.original} of {name} fails ({sizes})."
    return f"Case {result.original} of {name} is now {result.case}: {sizes}, found in {result.runs} runs."
