"""``gpuemu reproduce`` and ``gpuemu minimize``: stored cases, run again in a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.cli.commands.check import find_targets, open_pool
from gpuemu_lsp.cli.commands.failures import failure_table, project_root
from gpuemu_lsp.cli.output import OutputOptions, print_out
from gpuemu_lsp.engine.check.model import CheckOptions, CheckRequest, MinimisedFailure, Replay
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.run import fingerprinted, seconds_for
from gpuemu_lsp.engine.jobs.run_one import JobResult, run_job
from gpuemu_lsp.engine.report.error_map import error_map_png
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE
from gpuemu_lsp.engine.report.replays import render_replay, render_smaller, replay_record, smaller_record
from gpuemu_lsp.engine.report.text import TextStyle, render_finding
from gpuemu_lsp.engine.store import Store, StoredFailure, StoreError
from gpuemu_lsp.engine.workers import Job, Pool
from gpuemu_lsp.engine.workers.wire import from_json, to_json

_MINIMISE_SECONDS = 90.0
"""Wall time a minimisation may take beyond a check: its own budget, and the run that shows the result."""
_RECENT = 8
_EXIT = {"fixed": EXIT_CLEAN, "still fails": EXIT_FINDINGS, "changed": EXIT_FINDINGS, "not executed": EXIT_USAGE}


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Which stored case, of which kernel (None: of all that have one with this id), and how to show it."""

    case: str
    kernel: str | None = None
    executor: str = "auto"
    format: str = "text"
    colour: str = "auto"
    arch: str | None = None


@dataclass(frozen=True, slots=True)
class ExportPaths:
    """What to write besides: a script that stands alone, the PTX, a picture of where an output is wrong."""

    script: Path | None = None
    ptx: Path | None = None
    picture: Path | None = None


def reproduce(again: ReplayOptions, files: ExportPaths = ExportPaths()) -> int:
    """Run a stored case again: 0 fixed, 1 it fails, 2 it could not be run."""
    requests = _requests(again)
    if requests is None:
        return EXIT_USAGE
    shown = _ReplayPrinter("replays", again)
    with open_pool(1, again.executor) as pool:
        for request in requests:
            gathered = _run(pool, "reproduce", request, {"case": again.case}, 0.0)
            for value in gathered.named("replay"):
                root = request.root
                replay = _identified(from_json(Replay, value), root)
                shown.add(replay, replay_record(replay, root), render_replay(replay, root, shown.style))
                if files.picture is not None and not _draw(replay, files.picture):
                    return EXIT_USAGE
            shown.end(gathered, request)
        if (files.script or files.ptx) and not _export(pool, requests[0], again, files):
            return EXIT_USAGE
    return shown.close()


def _draw(replay: Replay, path: Path) -> bool:
    """Write the picture of a replay that fails with wrong elements; False, with the reason, where that fails."""
    pixels = None if replay.error is None else error_map_png(replay.error)
    if pixels is None:
        print("gpuemu: no picture: the case has no wrong elements to draw.", file=sys.stderr)
        return True
    try:
        path.write_bytes(pixels)
    except OSError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return False
    print(f"wrote {path}", file=sys.stderr)
    return True


def _export(pool: Pool, request: CheckRequest, again: ReplayOptions, files: ExportPaths) -> bool:
    """Write what was asked for; False, with the reason on standard error, where that was not possible."""
    script = None if files.script is None else files.script.resolve().with_suffix(".py")
    ptx = None if files.ptx is None else files.ptx.resolve()
    paths: dict[str, Json] = {
        "script": None if script is None else str(script),
        "ptx": None if ptx is None else str(ptx),
    }
    gathered = _run(pool, "export", request, {"case": again.case, **paths}, 0.0)
    written = [path for paths in gathered.named("written") if isinstance(paths, list) for path in paths]
    for path in written:
        print(f"wrote {path}", file=sys.stderr)
    troubles = list(gathered.named("trouble"))
    for trouble in troubles:
        print(f"gpuemu: {trouble}", file=sys.stderr)
    if not written and not troubles:
        print("gpuemu: nothing was written: the case cannot be run.", file=sys.stderr)
    return bool(written) and not troubles


def minimize(again: ReplayOptions, strategy: str, max_runs: int) -> int:
    """Minimise a stored case: 1 it fails (the smallest one is shown), 0 it does not any more, 2 it could not be run."""
    requests = _requests(again)
    if requests is None:
        return EXIT_USAGE
    shown = _ReplayPrinter("minimized", again)
    more: dict[str, Json] = {"case": again.case, "strategy": strategy, "max_runs": max_runs}
    with open_pool(1, again.executor) as pool:
        for request in requests:
            gathered = _run(pool, "minimize", request, more, _MINIMISE_SECONDS)
            for value in gathered.named("smaller"):
                root = request.root
                smaller = from_json(MinimisedFailure, value)
                smaller = replace(smaller, replay=_identified(smaller.replay, root))
                shown.add(smaller.replay, smaller_record(smaller, root), render_smaller(smaller, root, shown.style))
            shown.end(gathered, request)
    return shown.close()


class _ReplayPrinter:
    """What was shown so far, and the exit code it adds up to."""

    def __init__(self, title: str, again: ReplayOptions) -> None:
        self.style = OutputOptions(colour=again.colour).style()
        self._title = title
        self._as_json = again.format == "json"
        self._codes: list[int] = []
        self._records: list[Json] = []

    def add(self, replay: Replay, record: dict[str, Json], text: str) -> None:
        self._codes.append(_EXIT[replay.verdict])
        self._records.append(record)
        if not self._as_json:
            print_out(text)

    def end(self, gathered: JobResult, request: CheckRequest) -> None:
        """Tell how the job ended, when not well: the reference or the kernel took the process with it."""
        if gathered.done:
            return
        finding = ending_finding(request, gathered.ending)
        print(render_finding(finding, request.root, TextStyle(width=self.style.width)), file=sys.stderr, end="")
        self._codes.append(EXIT_INTERNAL if finding.rule == "engine/internal-error" else EXIT_USAGE)

    def close(self) -> int:
        """Return the exit code: a failing case outweighs one that could not be run, and nothing at all is not fixed."""
        if self._as_json:
            print_out(json.dumps({"version": 1, self._title: self._records}, indent=2, ensure_ascii=False) + "\n")
        order = (EXIT_INTERNAL, EXIT_FINDINGS, EXIT_USAGE, EXIT_CLEAN)
        return next((code for code in order if code in self._codes), EXIT_USAGE)


def _run(pool: Pool, function: str, request: CheckRequest, more: dict[str, Json], extra: float) -> JobResult:
    payload: dict[str, Json] = {"request": to_json(request), **more}
    seconds = seconds_for(request) + extra
    return run_job(pool, Job(function, payload, wall_seconds=seconds, taint=request.spec.reference))


def _identified(replay: Replay, root: str) -> Replay:
    return replace(replay, findings=tuple(fingerprinted(replay.findings, root)))


def _requests(again: ReplayOptions) -> list[CheckRequest] | None:
    """Return a request for every kernel that has a stored case with this id; None, with the reason printed."""
    root = project_root()
    if root is None:
        return None
    try:
        with Store(root) as store:
            stored = [item for item in store.find(again.case) if again.kernel in (None, item.failure.kernel)]
            recent = store.failures(_RECENT) if not stored else []
    except StoreError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return None
    if not stored:
        of = f" of '{again.kernel}'" if again.kernel is not None else ""
        print(f"gpuemu: there is no stored case '{again.case}'{of}.{_known(recent)}", file=sys.stderr)
        return None
    targets = find_targets([str(root)], CheckOptions(executor=again.executor, arch=again.arch))
    if targets is None:
        return None
    wanted = {item.failure.kernel for item in stored}
    requests = [request for request in targets.requests if request.spec.name in wanted]
    for name in sorted(wanted - {request.spec.name for request in requests}):
        print(f"gpuemu: case {again.case} is of '{name}', which is not in the project any more.", file=sys.stderr)
    return requests or None


def _known(recent: Sequence[StoredFailure]) -> str:
    if not recent:
        return " None is stored: a check keeps the cases that fail."
    return " The latest ones:\n" + "\n".join(failure_table(recent))
