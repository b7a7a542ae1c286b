"""Determinism of replays: stored failures of the corpus, run again in other processes and in a copy of the project.

    python -m benchmarks.replays [--cases N] [--scripts] [FOLDER]

The project is copied, checked, and copied again with its store. Each stored failure is then replayed in both copies,
each time in a new process, and inputs, verdict and finding must be equal. With ``--scripts``, one failure of every
kernel is instead exported as a script and run in an empty folder, where it must fail. Exits with 1 on a difference.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpuemu_lsp.engine.check.model import Replay
from gpuemu_lsp.engine.jobs.requests.targets import collect, projects_below
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.report.model import relative
from gpuemu_lsp.engine.store import Store, StoredFailure
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.wire import from_json, to_json

SECONDS = 120.0


def signature(replay: Replay, root: str) -> tuple[object, ...]:
    """Return the parts of a replay that must not depend on process or folder."""
    first = replay.error
    where = None if first is None else (relative(first.place.path, root), first.place.range, first.rule, first.message)
    return replay.dtype, replay.verdict, replay.digest, where


def stored_failures(root: Path) -> list[StoredFailure]:
    """Return the failures of a project, or of the projects below a folder that is none itself."""
    found = []
    for project in [root] if (root / "gpuemu.toml").exists() else projects_below(root):
        with Store(project) as store:
            found += store.failures(100_000)
    return found


def replays(root: Path, pool: Pool) -> Iterator[tuple[str, str, list[tuple[object, ...]]]]:
    """Yield kernel, case and the signatures of its replays, for every stored failure."""
    requests = {item.spec.name: item for item in collect([], CheckOptions(), root).requests if item.registered}
    for kernel, case in sorted({(item.failure.kernel, item.case) for item in stored_failures(root)}):
        payload = {"request": to_json(requests[kernel]), "case": case}
        # A different taint for each job, so that the pool never reuses a worker.
        job = Job("reproduce", payload, wall_seconds=SECONDS, taint=f"{kernel}/{case}")
        found = run_job(pool, job)
        yield kernel, case, [signature(from_json(Replay, value), root.as_posix()) for value in found.named("replay")]


def scripts(root: Path, pool: Pool) -> Iterator[tuple[str, str, int, str]]:
    """Yield kernel, case, exit code and output of a script for one failure of every kernel."""
    requests = {item.spec.name: item for item in collect([], CheckOptions(), root).requests if item.registered}
    cases = {item.failure.kernel: item.case for item in stored_failures(root)}
    for kernel, case in sorted(cases.items()):
        with tempfile.TemporaryDirectory(prefix="gpuemu-script-") as alone:
            path = str(Path(alone) / "again.py")
            payload = {"request": to_json(requests[kernel]), "case": case, "script": path, "ptx": None}
            run_job(pool, Job("export", payload, wall_seconds=SECONDS, taint=f"{kernel}/{case}"))
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
            ran = subprocess.run(
                [sys.executable, "again.py"], cwd=alone, env=environment, capture_output=True, text=True, check=False
            )
        yield kernel, case, ran.returncode, ran.stdout + ran.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--scripts", action="store_true")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1] / "kernels")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuemu-replays-") as scratch:
        first, second = Path(scratch) / "project", Path(scratch) / "other" / "folder" / "copy"
        shutil.copytree(options.folder, first, ignore=shutil.ignore_patterns(".gpuemu"))
        targets = collect([], CheckOptions(cases=options.cases), first)
        with Pool(FUNCTIONS, size=2, preload=PRELOAD) as pool:
            run_requests([item for item in targets.requests if item.registered], (), targets.root, pool)
            if options.scripts:
                ran = list(scripts(first, pool))
                wrong = [one for one in ran if one[2] != 1]
                print(f"{len(ran)} scripts: {len(ran) - len(wrong)} fail as expected")
                for kernel, case, code, text in wrong:
                    print(f"  {kernel} {case}: exit code {code}: {text[-300:]}")
                return int(bool(wrong))
            shutil.copytree(first, second)
            here, there = list(replays(first, pool)), list(replays(second, pool))
    differing = [one for one, other in zip(here, there, strict=True) if one != other]
    verdicts = [verdict for _, _, found in here for _, verdict, *_ in found]
    kernels = len({kernel for kernel, _, _ in here})
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in sorted(set(verdicts)))
    print(f"{len(here)} stored failures of {kernels} kernels: {counts}; {len(differing)} differ in the copy")
    for kernel, case, found in differing:
        print(f"  {kernel} {case}: {found}")
    lost = [(kernel, case) for kernel, case, found in here if any(verdict != "still fails" for _, verdict, *_ in found)]
    for kernel, case in lost:
        print(f"  {kernel} {case} does not fail again")
    return int(bool(differing or lost or not here))


if __name__ == "__main__":
    sys.exit(main())
