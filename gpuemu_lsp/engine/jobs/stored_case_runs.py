"""Stored cases that run again: which kernels an id is of, and jobs that replay, explain or minimise it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.check.model import MinimisedFailure, Replay, Why
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.requests.stored_cases import requests_of
from gpuemu_lsp.engine.jobs.requests.targets import projects_below
from gpuemu_lsp.engine.jobs.run import fingerprinted, seconds_for
from gpuemu_lsp.engine.jobs.run_one import JobResult, Submitter, run_job
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.store import RECORDED, Store, StoredFailure
from gpuemu_lsp.engine.store.database import FILE, FOLDER
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.wire import from_json, to_json

_EXTRA_SECONDS = {"minimize": 90.0, "why": 60.0}
"""Wall time of a job in addition to a check: the budget of a minimisation and the run that shows its result; code
without optimisation and the launches that are recorded."""


@dataclass(frozen=True, slots=True)
class StoredCase:
    """The kernels that have a case with an id, and what is to be said about others; ``recent`` only without any."""

    requests: tuple[CheckRequest, ...] = ()
    gone: tuple[str, ...] = ()
    """Names of kernels that have the case and are no longer in their project."""
    recent: tuple[StoredFailure, ...] = ()


def store_roots(folder: Path) -> list[Path]:
    """Return the folder of the current project, or those of the projects below a folder that is in none.

    So a case that ``--check FOLDER`` has stored is found from where the check was started.
    """
    config = discover(folder)
    if config is not None:
        return [config.parent]
    # The runtime verifier stores the calls of a program that is in no project, too.
    return [folder] if (folder / FOLDER / FILE).exists() else projects_below(folder)


def find_stored_case(
    case: str, roots: Sequence[Path], options: CheckOptions, kernel: str | None = None, recent: int = 8
) -> StoredCase:
    """Return the request of every kernel below ``roots`` that has a case with this id, or of the one of a name.

    Raises
    ------
    StoreError
        If a store cannot be read.
    """
    wanted: dict[Path, set[str]] = {}
    requests: list[CheckRequest] = []
    latest: list[StoredFailure] = []
    for root in roots:
        with Store(root) as store:
            stored = [item for item in store.find(case) if kernel in (None, item.failure.kernel)]
            latest += store.failures(recent) if not stored else []
        requests += [_recorded_call(root, item) for item in stored if item.failure.key.strategy == RECORDED]
        if kernels := {item.failure.kernel for item in stored if item.failure.key.strategy != RECORDED}:
            wanted[root] = kernels
    gone: list[str] = []
    for root, kernels in wanted.items():
        chosen = requests_of(root, kernels, options)
        gone += sorted(kernels - {request.spec.name for request in chosen})
        requests += chosen
    return StoredCase(tuple(requests), tuple(gone), () if requests or gone else tuple(latest[:recent]))


def _recorded_call(root: Path, stored: StoredFailure) -> CheckRequest:
    """Return the request for a call that the runtime verifier has recorded, which no gpuemu.toml mentions."""
    return CheckRequest(
        KernelSpec(stored.failure.kernel, str(root / CONFIG_NAME), None), registered=False, root=str(root)
    )


def is_recorded(request: CheckRequest, case: str) -> bool:
    """Return whether a case is a recorded call, which is not exported or minimised."""
    with Store(request.root) as store:
        return any(
            item.failure.key.strategy == RECORDED and item.failure.kernel == request.spec.name
            for item in store.find(case)
        )


def run_stored_case(pool: Submitter, function: str, request: CheckRequest, case: str, **more: Json) -> JobResult:
    """Run a job about a stored case: ``reproduce``, ``why``, ``minimize`` or ``export``, with its further payload."""
    payload: dict[str, Json] = {"request": to_json(request), "case": case, **more}
    seconds = seconds_for(request) + _EXTRA_SECONDS.get(function, 0.0)
    return run_job(pool, Job(function, payload, wall_seconds=seconds, taint=request.user_code))


def replays_of(result: JobResult, root: str) -> Iterator[Replay]:
    """Yield the results of a job ``reproduce``."""
    for value in result.named("replay"):
        yield _identified(from_json(Replay, value), root)


def explanations_of(result: JobResult, root: str) -> Iterator[Why]:
    """Yield the results of a job ``why``."""
    for value in result.named("why"):
        answer = from_json(Why, value)
        if answer.finding is not None:
            answer = replace(answer, finding=fingerprinted((answer.finding,), root)[0])
        yield answer


def smaller_cases_of(result: JobResult, root: str) -> Iterator[MinimisedFailure]:
    """Yield the results of a job ``minimize``."""
    for value in result.named("smaller"):
        smaller = from_json(MinimisedFailure, value)
        yield replace(smaller, replay=_identified(smaller.replay, root))


def _identified(replay: Replay, root: str) -> Replay:
    return replace(replay, findings=tuple(fingerprinted(replay.findings, root)))
