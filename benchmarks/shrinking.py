"""Quality of shrinking: planted bugs, shrunk from the first failing case of many seeds, against their known minima.

    python -m benchmarks.shrinking [--seeds N] [--part I/N] [--jobs N] [--runs N] [NAME ...]
    python -m benchmarks.shrinking --prove [NAME ...]

``kernels/minimal.toml`` has the known minima of each bug by rule and line.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import tomli

from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.check.replay import ReopenedCase
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.jobs.stored.minimise import shrinking
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.shrink import ShrinkBudget, ShrinkResult, space_of
from gpuemu_lsp.engine.shrink.dims import floor_of
from gpuemu_lsp.engine.shrink.order import size_key
from gpuemu_lsp.engine.shrink.redraw import DRAWS
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from tests.support.corpus import CORPUS, corpus_kernels
from tests.support.expectations import Expectations, read_expectations

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "kernels" / "minimal.toml"
CASES = 32
RUNS = 200
BATCH = 40
"""Kernels per process pool: a new pool frees what the processes cached of each kernel."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Result of shrinking the first failing case of one seed. ``line`` is 1-based.

    ``runs`` counts all launches, ``sized`` those until the final sizes were reached.
    """

    kernel: str
    dtype: str
    seed: int
    rule: str
    line: int
    start: Mapping[str, int]
    dims: Mapping[str, int]
    runs: int
    sized: int
    complete: bool

    @property
    def golden(self) -> bool:
        """True if it is a known minimum of this rule and line."""
        return any(dict(self.dims) == entry["dims"] for entry in goldens(self.kernel, self.rule, self.line))


def goldens(kernel: str, rule: str, line: int) -> list[dict[str, object]]:
    """Return the known minima of a bug with one rule on one line; several if equally small ones exist."""
    entries = tomli.loads(GOLDEN.read_text()).get(kernel, [])
    return [entry for entry in entries if entry["rule"] == rule and entry["line"] == line]


def examine(spec: KernelSpec, root: str, seeds: Sequence[int], runs: int = RUNS) -> list[Shrunk]:
    """Shrink the first failing case of each seed; the dtypes take turns."""
    request = CheckRequest(spec, CheckOptions(), root=root)
    prepared = prepare(request)
    executor, _ = choose_executor(request, prepared)
    assert executor is not None
    expectations = read_expectations(Path(spec.source))
    opened = [open_plan(request, prepared, plan, executor) for plan in prepared.plans]
    found = []
    for seed in seeds:
        turn = seed % len(opened)
        for run in (*opened[turn:], *opened[:turn]):
            failing = first_failing(run, expectations, seed)
            if failing is not None:
                found.append(_shrink(run, *failing, seed, runs))
                break
    return found


def first_failing(run: PlanRun, expectations: Expectations, seed: int) -> tuple[Case, Finding] | None:
    """Return the first case of a check with this seed that shows the planted bug, and the finding."""
    for case in draw_cases(run.plan, seed, CASES, run.context.hints):
        shown = expectations.found(ReopenedCase((), run, case).examine(case, case.key.id))
        if shown:
            return case, shown[0]
    return None


def _shrink(run: PlanRun, case: Case, target: Finding, seed: int, runs: int) -> Shrunk:
    sized, dims = 0, case.dims
    for result in shrinking(ReopenedCase((), run, case), target, 1.0, ShrinkBudget(max_runs=runs, max_seconds=300.0)):
        if result.case.dims != dims:
            sized, dims = result.runs, result.case.dims
    assert isinstance(result, ShrinkResult)
    line = target.place.range.start.line + 1
    name, dtype = run.plan.kernel, run.plan.dtype
    return Shrunk(name, dtype, seed, target.rule, line, case.dims, dims, result.runs, sized, result.complete)


def smaller_failures(spec: KernelSpec, root: str, entry: Mapping[str, object], most: int = 60) -> list[dict[str, int]]:
    """Return sizes smaller than a known minimum at which the bug still shows on the same line.

    All classes of values are tried, at the ``most`` smaller vectors of sizes nearest to the minimum.
    """
    request = CheckRequest(spec, CheckOptions(), root=root)
    prepared = prepare(request)
    executor, _ = choose_executor(request, prepared)
    assert executor is not None
    golden = entry["dims"]
    assert isinstance(golden, dict)
    shown = []
    for plan in prepared.plans:
        run = open_plan(request, prepared, plan, executor)
        run.runner.launch = replace(run.runner.launch, max_seconds=0.5)
        known = rebuild(run.plan, CaseKey(1, "small/uniform", golden))
        space = space_of(run.plan, known, run.context.hints)
        ranges = [range(floor_of(dim), golden[dim.name] + 3) for dim in run.plan.dims]
        volume = math.prod(golden.values())
        near = (sizes for sizes in itertools.product(*ranges) if volume // 2 <= math.prod(sizes) <= volume)
        vectors = (
            dict(zip((dim.name for dim in plan.dims), sizes, strict=True))
            for sizes in sorted(near, key=math.prod)[-4 * most :]
        )
        cases = [case for dims in vectors if (case := space.rebuild(known, dims)) and size_key(case) < size_key(known)]
        for small in sorted(cases, key=size_key)[-most:]:
            for case in itertools.islice(space.redraw(known, small.dims), DRAWS):
                found = ReopenedCase((), run, case).examine(case, case.key.id)
                if any((one.rule, one.place.range.start.line + 1) == (entry["rule"], entry["line"]) for one in found):
                    shown.append(dict(case.dims))
                    break
    return shown


def main() -> None:
    """Shrink the corpus' planted bugs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--part", default="1/1", help="2/4: the second quarter of the kernels only")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--prove", action="store_true", help="look for smaller failing sizes than the known minima")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    specs = corpus_kernels(options.names)
    specs = [spec for spec in specs if read_expectations(Path(spec.source)).required]
    index, parts = map(int, options.part.split("/"))
    specs = specs[index - 1 :: parts]
    started = time.monotonic()
    if options.prove:
        _prove(specs, CORPUS.as_posix())
        return
    every: list[Shrunk] = []
    seeds = range(1, 1 + options.seeds)
    for batch in (specs[start : start + BATCH] for start in range(0, len(specs), BATCH)):
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            futures = [pool.submit(examine, spec, CORPUS.as_posix(), seeds, options.runs) for spec in batch]
            for spec, future in zip(batch, futures, strict=True):
                rows = future.result()
                every += rows
                print(_line(spec.name, rows, options.seeds), flush=True)
    minutes = (time.monotonic() - started) / 60
    print(_summary(every))
    print(f"{minutes:.0f} minutes; about {minutes * parts:.0f} for all parts.")


def _prove(specs: Sequence[KernelSpec], root: str) -> None:
    known = tomli.loads(GOLDEN.read_text())
    for spec in specs:
        for entry in known.get(spec.name, []):
            smaller = smaller_failures(spec, root, entry)
            print(
                f"{spec.name:<28}{entry['dims']}: {'minimal' if not smaller else f'NOT MINIMAL: {smaller}'}", flush=True
            )


def _line(name: str, rows: Sequence[Shrunk], seeds: int) -> str:
    ends: dict[tuple[str, int, str], list[Shrunk]] = {}
    for row in rows:
        dims = ", ".join(f"{dim} = {size}" for dim, size in row.dims.items())
        ends.setdefault((row.rule, row.line, dims), []).append(row)
    shown = "; ".join(
        f"{len(group)}x {rule}:{line} [{dims}]{'' if group[0].golden else ' NOT GOLDEN'}"
        for (rule, line, dims), group in ends.items()
    )
    effort = f"{max(row.sized for row in rows)}/{max(row.runs for row in rows)}" if rows else "-"
    return f"{name:<28}{len(rows):>3}/{seeds}  runs {effort:<9}{shown}"


def _summary(rows: Sequence[Shrunk]) -> str:
    golden = sum(row.golden for row in rows)
    runs, sized = [row.runs for row in rows], [row.sized for row in rows]
    finished = sum(row.complete for row in rows)
    return (
        f"{golden} of {len(rows)} failing cases arrived at the known minimum with the same rule and line; "
        f"runs until the sizes: median {statistics.median(sized):.0f}, most {max(sized)}; in all: median "
        f"{statistics.median(runs):.0f}, most {max(runs)}; {finished} searches ended by themselves."
    )


if __name__ == "__main__":
    main()
