"""Overhead and scaling of Dask: the same checks in a worker pool and in a local cluster, with 1 and 2 workers.

    python -m benchmarks.cluster [--cases N] [--repeat N] [--output docs/measurements/performance.md] [FOLDER]

The start of the workers is not counted; two checks warm them up. The four configurations take turns, and medians of
their times are reported. Exits with 1 if their findings differ.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import distributed

from benchmarks.page import put
from gpuemu_lsp.engine.jobs.cluster import LOCAL, Cluster
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.jobs.run import Runner, run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.pool import Pool

CONFIGURATIONS = (("pool", 1), ("dask", 1), ("pool", 2), ("dask", 2))
NAMES = {"pool": "pool", "dask": "Dask"}


def measured(runner: Runner, requests: tuple[CheckRequest, ...], root: str) -> tuple[float, frozenset[str]]:
    """Return the seconds, and all findings and verdicts."""
    run_requests(requests[:2], (), root, runner)
    started = time.perf_counter()
    run = run_requests(requests, (), root, runner)
    seconds = time.perf_counter() - started
    # Addresses differ between processes.
    data = ({name: value for name, value in one.data.items() if name != "address"} for one in run.findings)
    found = {repr((one.fingerprint, one.message, one.case, more)) for one, more in zip(run.findings, data, strict=True)}
    return seconds, frozenset(found | {f"{one.name}: {one.status}, {one.cases}" for one in run.kernels})


def opened(kind: str, size: int) -> AbstractContextManager[Pool | Cluster]:
    return Cluster(LOCAL, size) if kind == "dask" else Pool(FUNCTIONS, size=size, preload=PRELOAD)


def render(times: dict[tuple[str, int], list[float]], kernels: int, options: argparse.Namespace, same: bool) -> str:
    """Return the section of the page."""
    medians = {key: statistics.median(values) for key, values in times.items()}
    first = medians[CONFIGURATIONS[0]]
    rows = [
        f"| {NAMES[kind]}, {size} worker{'s' * (size > 1)} | {seconds:.1f} | {first / seconds:.2f} |"
        for (kind, size), seconds in medians.items()
    ]
    one, two = medians["dask", 1] / first - 1, medians["dask", 2] / medians["pool", 2] - 1
    return "\n".join(
        [
            "## Checks on a Dask cluster",
            "",
            f"`python -m benchmarks.cluster --cases {options.cases} --repeat {options.repeat}`: {kernels} kernels, a "
            f"worker pool and a local Dask cluster in turns, medians of {options.repeat}",
            f"({os.cpu_count()} cores, Dask {distributed.__version__}, load {os.getloadavg()[1]:.1f} at the end):",
            "",
            "| | seconds | speedup over one pool worker |",
            "|---|---|---|",
            *rows,
            "",
            "All runs have the same findings." if same else "**The findings of the runs differ.**",
            f"Relative to the pool, Dask takes {one:+.0%} with one worker and {two:+.0%} with two. A job is one "
            "kernel, so a cluster speeds up projects with many kernels, not a single slow kernel.",
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path)
    parser.add_argument("folder", nargs="?", default=str(Path(__file__).parents[1] / "kernels" / "ops"))
    options = parser.parse_args()
    targets = collect([options.folder], CheckOptions(cases=options.cases), Path.cwd())
    requests = tuple(
        replace(item, options=replace(item.options, store_root=None)) for item in targets.requests if item.registered
    )
    times: dict[tuple[str, int], list[float]] = {key: [] for key in CONFIGURATIONS}
    found: set[frozenset[str]] = set()
    for turn in range(options.repeat):
        for kind, size in CONFIGURATIONS:
            with opened(kind, size) as runner:
                seconds, results = measured(runner, requests, targets.root)
            times[kind, size].append(seconds)
            found.add(results)
            print(f"{turn + 1}: {kind} {size}: {seconds:.1f} s", file=sys.stderr, flush=True)
    for difference in sorted(frozenset().union(*found) - frozenset.intersection(*found)):
        print(f"not in all runs: {difference}", file=sys.stderr)
    put(options.output, "cluster", render(times, len(requests), options, len(found) == 1))
    return int(len(found) != 1)


if __name__ == "__main__":
    sys.exit(main())
