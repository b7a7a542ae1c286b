"""Checks of kernels of public repositories as they are, nothing configured: how many compile and run, and how quickly.

    python -m benchmarks.unconfigured_kernels FOLDER [REPOSITORY ...] [--cases N] [--jobs N] [--details FILE]
        [--output FILE]

FOLDER contains a checkout of each repository. ``--details`` receives one JSON line per kernel as soon as its file is
done: for reading every finding, and for a table of the repositories so far if the run is ended early. ``--from FILE``
prints the tables of such a file without checking anything. Tables hold names and figures, no code. Without ``--cases``
as many run as ``gpuemu-lsp --check`` runs.

Seconds of a check are those in its worker, without the wait for one: wall time, and in a second row without the time
for which the thread waited for a processor. Those of searching and of running have neither such waits nor translation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.page import put
from benchmarks.public_files import requests_of
from gpuemu_lsp.engine.check.not_executed import reason_groups
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.pool import Pool

Row = dict[str, Any]
"""One kernel: repository, file, kernel, compiled, ran, reason, seconds, errors."""

_MOST_SECONDS = 20.0


_STAGES = {"seconds": "total", "waited": "wait", "searching": "search", "running": "cases"}


def rows_of(repository: Path, requests: Sequence[CheckRequest], pool: Pool) -> list[Row]:
    """Check the kernels of one file."""
    run = run_requests(requests, (), str(repository), pool)
    titles = {one.name: group.title for group in reason_groups(run.kernels, run.findings) for one in group.kernels}
    rows: list[Row] = []
    for report in run.kernels:
        mine = [one for one in run.findings if one.kernel in (None, report.name)]
        wrong = [one for one in mine if one.severity is Severity.ERROR and not one.rule.startswith("compile/")]
        rows.append(
            {
                "repository": repository.name,
                "file": Path(report.source).relative_to(repository).as_posix(),
                "kernel": report.name,
                "compiled": report.compiled,
                "ran": report.name not in titles,
                "reason": titles.get(report.name, ""),
                "said": [one.message.split("\n")[0][:200] for one in mine if one not in wrong][:3],
                "cases": report.cases.run,
                **{key: round(report.timing_ms.get(stage, 0.0) / 1e3, 3) for key, stage in _STAGES.items()},
                "errors": [[one.rule, one.place.range.start.line + 1, one.message[:400]] for one in wrong],
            }
        )
    return rows


def measure(repositories: Sequence[Path], details: Path | None, cases: int | None, jobs: int) -> list[Row]:
    """Check every kernel, ``jobs`` files at a time; append each file's rows to ``details``."""
    rows: list[Row] = []
    lock = threading.Lock()

    def one_file(repository: Path, requests: Sequence[CheckRequest]) -> None:
        found = rows_of(repository, requests, pool)
        with lock:
            rows.extend(found)
            if details is not None:
                with details.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)

    with Pool(FUNCTIONS, size=jobs, preload=PRELOAD) as pool, ThreadPoolExecutor(jobs) as threads:
        started = []
        for repository in repositories:
            ordered = sorted(requests_of(repository, cases), key=_source)
            started += [
                threads.submit(one_file, repository, list(mine)) for _source_path, mine in groupby(ordered, key=_source)
            ]
        for future in started:
            future.result()
    return rows


def _source(request: CheckRequest) -> str:
    return request.spec.source


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a page: figures by repository, reasons, times and findings at error level."""
    yield "| repository | kernels | compiled | % | ran | % |"
    yield "|---|---|---|---|---|---|"
    for name, mine in _by_repository(rows).items():
        compiled, ran = (sum(bool(row[key]) for row in mine) for key in ("compiled", "ran"))
        yield f"| {name} | {len(mine)} | {compiled} | {_share(compiled, mine)} | {ran} | {_share(ran, mine)} |"
    yield from ("", "| did not run because | kernels |", "|---|---|")
    for reason, number in Counter(row["reason"] for row in rows if not row["ran"]).most_common():
        yield f"| {reason} | {number} |"
    yield from _seconds(rows)
    yield from ("", "| repository | kernel | finding at error level |", "|---|---|---|")
    for row in rows:
        for rule, line, _message in row["errors"]:
            yield f"| {row['repository']} | {row['kernel']} | {rule}, {Path(row['file']).name} line {line} |"


def _seconds(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("", "| seconds of a check | median | 95th percentile | largest | over 20 s |", "|---|---|---|---|---|")
    wall = [row["seconds"] for row in rows]
    scheduled = [max(0.0, row["seconds"] - row.get("waited", 0.0)) for row in rows]
    for clock, seconds in (("wall time", wall), ("without waits for a processor", scheduled)):
        ordered = sorted(seconds)
        high = statistics.quantiles(ordered, n=20)[18] if len(ordered) > 1 else ordered[0]
        pairs = zip(rows, seconds, strict=True)
        over = [f"{row['file']}: {row['kernel']}" for row, one in pairs if one > _MOST_SECONDS]
        figures = f"{statistics.median(ordered):.2f} | {high:.1f} | {ordered[-1]:.1f} | {', '.join(over) or 'none'}"
        yield f"| {clock} | {figures} |"
    searched = [row for row in rows if row.get("searching")]
    longer = [row for row in searched if row["searching"] > row["running"]]
    both = [sum(row[key] for row in searched) for key in ("searching", "running")]
    yield from (
        "",
        f"Sizes were searched for {len(searched)} kernels, in {both[0]:.1f} s, and their cases ran in {both[1]:.1f} s. "
        f"Searching took longer than running for {len(longer)}:",
        "",
        *(
            f"- {row['file']}, {row['kernel']}: {row['searching']:.2f} s and {row['running']:.2f} s"
            for row in sorted(longer, key=lambda row: row["running"] - row["searching"])
        ),
    )


def _by_repository(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["repository"], []).append(row)
    return found


def _share(number: int, rows: Sequence[Row]) -> str:
    return f"{100 * number / len(rows):.0f}"


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("repositories", nargs="*")
    parser.add_argument("--cases", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--details", type=Path)
    parser.add_argument("--from", dest="stored", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.stored is not None:
        rows = [json.loads(line) for line in options.stored.read_text(encoding="utf-8").splitlines()]
    else:
        names = options.repositories or sorted(path.name for path in options.folder.iterdir() if path.is_dir())
        rows = measure([options.folder / name for name in names], options.details, options.cases, options.jobs)
    page = "## Public kernels, nothing configured\n\n" + "\n".join(tables(rows)) + "\n"
    put(options.output, "unconfigured public kernels", page)


if __name__ == "__main__":
    main()
