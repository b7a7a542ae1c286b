"""What Dask costs and how it scales here: the same checks in our pool and in a local cluster, 1 and 2 workers.

    python -m benchmarks.cluster [--cases N] [FOLDER]

Starting the workers is not counted; each is warmed up by a check of its own first.
"""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.campaign.cluster import LOCAL, Cluster
from gpuemu_lsp.engine.campaign.jobs import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.campaign.run import Runner, run_requests
from gpuemu_lsp.engine.campaign.targets import collect
from gpuemu_lsp.engine.check.model import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers import Pool


def measured(runner: Runner, requests: tuple[CheckRequest, ...], root: str) -> tuple[float, int]:
    run_requests(requests[:2], (), root, runner)
    started = time.perf_counter()
    run = run_requests(requests, (), root, runner)
    return time.perf_counter() - started, len(run.findings)


def opened(kind: str, size: int) -> AbstractContextManager[Pool | Cluster]:
    return Cluster(LOCAL, size) if kind == "dask" else Pool(FUNCTIONS, size=size, preload=PRELOAD)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=32)
    parser.add_argument("folder", nargs="?", default=str(Path(__file__).parents[1] / "kernels" / "ops"))
    options = parser.parse_args()
    targets = collect([options.folder], CheckOptions(cases=options.cases), Path.cwd())
    requests = tuple(
        replace(item, options=replace(item.options, store_root=None)) for item in targets.requests if item.registered
    )
    first: float | None = None
    print(f"{len(requests)} kernels, {options.cases} cases each")
    for size in (1, 2):
        for kind in ("pool", "dask"):
            with opened(kind, size) as runner:
                seconds, findings = measured(runner, requests, targets.root)
            first = first or seconds
            print(f"{kind} {size}: {seconds:6.1f} s, {first / seconds:4.2f} of one pool worker, {findings} findings")


if __name__ == "__main__":
    main()
