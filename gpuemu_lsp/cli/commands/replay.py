"""``gpuemu reproduce``, ``why`` and ``minimize``: stored cases run again in a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.cli.commands.failures import failure_table, project_roots
from gpuemu_lsp.cli.output import OutputOptions, print_out
from gpuemu_lsp.engine.check.model import MinimisedFailure, Replay, Why
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.requests.stored_cases import requests_of
from gpuemu_lsp.engine.jobs.run import fingerprinted, seconds_for
from gpuemu_lsp.engine.jobs.run_one import JobResult, run_job
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.report.charts import error_map_png
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE
from gpuemu_lsp.engine.report.explanations import explanation_record, render_explanation
from gpuemu_lsp.engine.report.replays import render_replay, render_smaller, replay_record, smaller_record
from gpuemu_lsp.engine.report.text import TextStyle, render_finding
from gpuemu_lsp.engine.store import RECORDED, Store, StoredFailure, StoreError
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.wire import from_json, to_json

_MINIMISE_SECONDS = 90.0
"""Wall time of a minimisation in addition to a check: its budget, and the run that shows the result."""
_RECORD_SECONDS = 60.0
"""The same of an explanation: code without optimisation, and launches that are recorded."""
_RECENT = 8
_EXIT = {"fixed": EXIT_CLEAN, "still fails": EXIT_FINDINGS, "changed": EXIT_FINDINGS, "not executed": EXIT_USAGE}


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The stored case, its kernel (None for all kernels that have a case with this id), and output options."""

    case: str
    kernel: str | None = None
    executor: str = "auto"
    format: str = "text"
    colour: str = "auto"
    arch: str | None = None


@dataclass(frozen=True, slots=True)
class ExportPaths:
    """Files to write: a standalone script, the PTX, a picture of the wrong elements."""

    script: Path | None = None
    ptx: Path | None = None
    picture: Path | None = None


def reproduce(options: ReplayOptions, files: ExportPaths = ExportPaths()) -> int:
    """Run a stored case again; return 0 if it is fixed, 1 if it fails, 2 if it could not be run."""
    requests = _requests(options)
    if requests is None:
        return EXIT_USAGE
    shown = _ReplayPrinter("replays", options)
    with open_pool(1, options.executor) as pool:
        for request in requests:
            gathered = _run(pool, "reproduce", request, {"case": options.case}, 0.0)
            for value in gathered.named("replay"):
                root = request.root
                replay = _identified(from_json(Replay, value), root)
                shown.add(replay.verdict, replay_record(replay, root), render_replay(replay, root, shown.style))
                if files.picture is not None and not _draw(replay, files.picture):
                    return EXIT_USAGE
            shown.end(gathered, request)
        if (files.script or files.ptx) and _is_recorded(requests[0], options.case):
            print(f"gpuemu: case {options.case} is a recorded call, which is not exported.", file=sys.stderr)
            return EXIT_USAGE
        if (files.script or files.ptx) and not _export(pool, requests[0], options, files):
            return EXIT_USAGE
    return shown.close()


def why(options: ReplayOptions) -> int:
    """Explain a stored case; return 1 if it fails, 0 if it no longer does, 2 if it could not be run."""
    requests = _requests(options)
    if requests is None:
        return EXIT_USAGE
    shown = _ReplayPrinter("explanations", options)
    with open_pool(1, options.executor) as pool:
        for request in requests:
            gathered = _run(pool, "why", request, {"case": options.case}, _RECORD_SECONDS)
            for value in gathered.named("why"):
                answer, root = from_json(Why, value), request.root
                if answer.finding is not None:
                    answer = replace(answer, finding=fingerprinted((answer.finding,), root)[0])
                text = render_explanation(answer, root, shown.style)
                shown.add(answer.verdict, explanation_record(answer, root), text)
            shown.end(gathered, request)
    return shown.close()


def _draw(replay: Replay, path: Path) -> bool:
    """Write the picture of a replay's wrong elements; print the reason and return False if that fails."""
    pixels = None if replay.error is None else error_map_png(replay.error)
    if pixels is None:
        print("gpuemu: no picture was written: the case has no wrong elements.", file=sys.stderr)
        return True
    try:
        path.write_bytes(pixels)
    except OSError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return False
    print(f"wrote {path}", file=sys.stderr)
    return True


def _export(pool: Pool, request: CheckRequest, options: ReplayOptions, files: ExportPaths) -> bool:
    """Write the requested files; print the reason and return False if that is not possible."""
    script = None if files.script is None else files.script.resolve().with_suffix(".py")
    ptx = None if files.ptx is None else files.ptx.resolve()
    paths: dict[str, Json] = {
        "script": None if script is None else str(script),
        "ptx": None if ptx is None else str(ptx),
    }
    gathered = _run(pool, "export", request, {"case": options.case, **paths}, 0.0)
    written = [path for paths in gathered.named("written") if isinstance(paths, list) for path in paths]
    for path in written:
        print(f"wrote {path}", file=sys.stderr)
    errors = list(gathered.named("trouble"))
    for error in errors:
        print(f"gpuemu: {error}", file=sys.stderr)
    if not written and not errors:
        print("gpuemu: nothing was written: the case cannot be run.", file=sys.stderr)
    return bool(written) and not errors


def minimize(options: ReplayOptions, strategy: str, max_runs: int) -> int:
    """Minimise a stored case; return 1 if it fails, 0 if it no longer fails, 2 if it could not be run."""
    requests = _requests(options)
    if requests is None:
        return EXIT_USAGE
    if any(_is_recorded(request, options.case) for request in requests):
        print(f"gpuemu: case {options.case} is a recorded call, which is not minimized.", file=sys.stderr)
        return EXIT_USAGE
    shown = _ReplayPrinter("minimized", options)
    more: dict[str, Json] = {"case": options.case, "strategy": strategy, "max_runs": max_runs}
    with open_pool(1, options.executor) as pool:
        for request in requests:
            gathered = _run(pool, "minimize", request, more, _MINIMISE_SECONDS)
            for value in gathered.named("smaller"):
                root = request.root
                smaller = from_json(MinimisedFailure, value)
                smaller = replace(smaller, replay=_identified(smaller.replay, root))
                shown.add(
                    smaller.replay.verdict, smaller_record(smaller, root), render_smaller(smaller, root, shown.style)
                )
            shown.end(gathered, request)
    return shown.close()


class _ReplayPrinter:
    """Prints replays and accumulates their exit codes."""

    def __init__(self, title: str, options: ReplayOptions) -> None:
        self.style = OutputOptions(colour=options.colour).style()
        self._title = title
        self._as_json = options.format == "json"
        self._codes: list[int] = []
        self._records: list[Json] = []

    def add(self, verdict: str, record: dict[str, Json], text: str) -> None:
        self._codes.append(_EXIT[verdict])
        self._records.append(record)
        if not self._as_json:
            print_out(text)

    def end(self, gathered: JobResult, request: CheckRequest) -> None:
        """Print the finding of a job that crashed or timed out."""
        if gathered.done:
            return
        finding = ending_finding(request, gathered.ending)
        print(render_finding(finding, request.root, TextStyle(width=self.style.width)), file=sys.stderr, end="")
        self._codes.append(EXIT_INTERNAL if finding.rule == "engine/internal-error" else EXIT_USAGE)

    def close(self) -> int:
        """Write JSON output and return the exit code.

        A failing case takes precedence over one that could not be run; without any case the result is not "fixed".
        """
        if self._as_json:
            print_out(json.dumps({"version": 1, self._title: self._records}, indent=2, ensure_ascii=False) + "\n")
        order = (EXIT_INTERNAL, EXIT_FINDINGS, EXIT_USAGE, EXIT_CLEAN)
        return next((code for code in order if code in self._codes), EXIT_USAGE)


def _run(pool: Pool, function: str, request: CheckRequest, more: dict[str, Json], extra: float) -> JobResult:
    payload: dict[str, Json] = {"request": to_json(request), **more}
    seconds = seconds_for(request) + extra
    return run_job(pool, Job(function, payload, wall_seconds=seconds, taint=request.user_code))


def _identified(replay: Replay, root: str) -> Replay:
    return replace(replay, findings=tuple(fingerprinted(replay.findings, root)))


def _requests(options: ReplayOptions) -> list[CheckRequest] | None:
    """Return a request for every kernel that has a stored case with this id; print the reason and return None."""
    roots = project_roots()
    wanted: dict[Path, set[str]] = {}
    calls: list[CheckRequest] = []
    recent: list[StoredFailure] = []
    for root in roots:
        try:
            with Store(root) as store:
                stored = [item for item in store.find(options.case) if options.kernel in (None, item.failure.kernel)]
                recent += store.failures(_RECENT) if not stored else []
        except StoreError as error:
            print(f"gpuemu: {error}", file=sys.stderr)
            return None
        calls += [_recorded_call(root, item) for item in stored if item.failure.key.strategy == RECORDED]
        if kernels := {item.failure.kernel for item in stored if item.failure.key.strategy != RECORDED}:
            wanted[root] = kernels
    if roots and not wanted and not calls:
        of = f" of '{options.kernel}'" if options.kernel is not None else ""
        print(f"gpuemu: no stored case '{options.case}'{of}.{_known(recent[:_RECENT])}", file=sys.stderr)
    requests = calls
    for root, kernels in wanted.items():
        found = requests_of(root, kernels, CheckOptions(executor=options.executor, arch=options.arch))
        for name in sorted(kernels - {request.spec.name for request in found}):
            print(f"gpuemu: case {options.case} is of '{name}', which is no longer in the project.", file=sys.stderr)
        requests += found
    return requests or None


def _recorded_call(root: Path, stored: StoredFailure) -> CheckRequest:
    """Return the request for a call that the runtime verifier has recorded, which no gpuemu.toml mentions."""
    return CheckRequest(
        KernelSpec(stored.failure.kernel, str(root / CONFIG_NAME), None), registered=False, root=str(root)
    )


def _is_recorded(request: CheckRequest, case: str) -> bool:
    with Store(request.root) as store:
        return any(
            item.failure.key.strategy == RECORDED and item.failure.kernel == request.spec.name
            for item in store.find(case)
        )


def _known(recent: Sequence[StoredFailure]) -> str:
    if not recent:
        return " No cases are stored; a check stores the cases that fail."
    return " Latest cases:\n" + "\n".join(failure_table(recent))
