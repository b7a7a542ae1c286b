"""``gpuemu reproduce``, ``why`` and ``minimize``: stored cases run again in a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.cli.commands.failures import failure_table, project_roots
from gpuemu_lsp.cli.output import OutputOptions, print_out
from gpuemu_lsp.engine.check.model import Replay
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.requests.targets import TargetError
from gpuemu_lsp.engine.jobs.run_one import JobResult
from gpuemu_lsp.engine.jobs.stored_case_runs import (
    explanations_of,
    find_stored_case,
    is_recorded,
    replays_of,
    run_stored_case,
    smaller_cases_of,
)
from gpuemu_lsp.engine.report.charts import error_map_png
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE
from gpuemu_lsp.engine.report.explanations import explanation_record, render_explanation
from gpuemu_lsp.engine.report.replays import render_replay, render_smaller, replay_record, smaller_record
from gpuemu_lsp.engine.report.text import TextStyle, render_finding
from gpuemu_lsp.engine.store import StoredFailure, StoreError
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.pool import Pool

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
            gathered = run_stored_case(pool, "reproduce", request, options.case)
            root = request.root
            for replay in replays_of(gathered, root):
                shown.add(replay.verdict, replay_record(replay, root), render_replay(replay, root, shown.style))
                if files.picture is not None and not _draw(replay, files.picture):
                    return EXIT_USAGE
            shown.end(gathered, request)
        if (files.script or files.ptx) and is_recorded(requests[0], options.case):
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
            gathered = run_stored_case(pool, "why", request, options.case)
            root = request.root
            for answer in explanations_of(gathered, root):
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
    gathered = run_stored_case(pool, "export", request, options.case, **paths)
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
    if any(is_recorded(request, options.case) for request in requests):
        print(f"gpuemu: case {options.case} is a recorded call, which is not minimized.", file=sys.stderr)
        return EXIT_USAGE
    shown = _ReplayPrinter("minimized", options)
    with open_pool(1, options.executor) as pool:
        for request in requests:
            gathered = run_stored_case(pool, "minimize", request, options.case, strategy=strategy, max_runs=max_runs)
            root = request.root
            for smaller in smaller_cases_of(gathered, root):
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


def _requests(options: ReplayOptions) -> list[CheckRequest] | None:
    """Return a request for every kernel that has a stored case with this id; print the reason and return None."""
    roots = project_roots()
    chosen = CheckOptions(executor=options.executor, arch=options.arch)
    try:
        stored = find_stored_case(options.case, roots, chosen, options.kernel, _RECENT)
    except (StoreError, TargetError) as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return None
    if roots and not stored.requests and not stored.gone:
        of = f" of '{options.kernel}'" if options.kernel is not None else ""
        print(f"gpuemu: no stored case '{options.case}'{of}.{_known(stored.recent)}", file=sys.stderr)
    for name in stored.gone:
        print(f"gpuemu: case {options.case} is of '{name}', which is no longer in the project.", file=sys.stderr)
    return list(stored.requests) or None


def _known(recent: Sequence[StoredFailure]) -> str:
    if not recent:
        return " No cases are stored; a check stores the cases that fail."
    return " Latest cases:\n" + "\n".join(failure_table(recent))
