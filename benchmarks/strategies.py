"""Comparison of the original's strategies: recall on planted bugs and false positives on correct kernels.

    python -m benchmarks.strategies [--cases N] [--seed S] [--part I/N --counts FILE] [--jobs N] [NAME ...]

Parts (``--part 2/6``: every sixth kernel from the second on) append their counts to FILE; the table shows their sum.

As in the original's study every strategy gives each kernel the same number of cases (8), the dtypes in turn. A case of
a planted bug counts if it shows that bug on its line, a case of a correct kernel if it flags anything. Intervals are
Wilson's at 95 % (Wilson, 1927, "Probable inference, the law of succession, and statistical inference").
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.check.replay import ReopenedCase
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.strategies import DTYPE_OF, STRATEGIES
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from tests.support.corpus import CORPUS, corpus_kernels
from tests.support.expectations import Expectations, read_expectations

ROOT = Path(__file__).parent.parent
BATCH = 40
_ENDLESS_SECONDS = 1.0
PAPER = {
    "default": (57, 0),
    "boundary": (62, 0),
    "regular": (51, 0),
    "single_dtype_f32": (59, 0),
    "single_dtype_f16": (59, 3),
    "nan_injected": (75, 93),
    "adversarial": (79, 120),
}
"""Cases the original's third study flagged: of 80 with a bug, and of 128 without."""


@dataclass(frozen=True, slots=True)
class Count:
    """Cases of one kernel under one strategy, and the number of them that were flagged."""

    kernel: str
    planted: bool
    strategy: str
    flagged: int
    cases: int


def examine(spec: KernelSpec, root: str, seed: int, cases: int) -> list[Count]:
    """Run the cases of every strategy on one kernel."""
    request = CheckRequest(spec, CheckOptions(), root=root)
    prepared = prepare(request)
    executor, _ = choose_executor(request, prepared)
    assert executor is not None
    expectations = read_expectations(Path(spec.source))
    if not expectations.clean and not expectations.required:
        return []
    runs = [open_plan(request, prepared, plan, executor) for plan in prepared.plans]
    if any("sync/hang" in claim.rules for claim in expectations.required):
        # A hang takes the whole time limit in every case.
        for run in runs:
            run.runner.launch = replace(run.runner.launch, max_seconds=_ENDLESS_SECONDS)
    counts = []
    for strategy in STRATEGIES:
        wanted = DTYPE_OF.get(strategy)
        chosen = [run for run in runs if wanted in (None, run.plan.dtype)]
        if chosen:
            counts.append(_count(chosen, strategy, seed, cases, expectations))
    return counts


def _count(runs: Sequence[PlanRun], strategy: str, seed: int, cases: int, expectations: Expectations) -> Count:
    """Count flagged cases; the strategy's own seed is the master seed plus its name's characters, as in the study."""
    own = seed + sum(map(ord, strategy))
    drawn = [draw_cases(run.plan, own, cases, run.context.hints, strategy) for run in runs]
    flagged = total = 0
    for index, several in enumerate(zip(*drawn, strict=True)):
        turn = index % len(runs)
        case = several[turn]
        findings = ReopenedCase((), runs[turn], case).examine(case, case.key.id)
        if expectations.clean:
            hit = any(finding.severity in (Severity.ERROR, Severity.WARNING) for finding in findings)
        else:
            hit = bool(expectations.found(findings))
        flagged, total = flagged + hit, total + 1
    return Count(runs[0].plan.kernel, not expectations.clean, strategy, flagged, total)


def wilson(hits: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """Return Wilson's interval of a proportion; the default is that at 95 %."""
    if not total:
        return 0.0, 1.0
    share = hits / total
    middle = share + z * z / (2 * total)
    reach = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def render(counts: Sequence[Count], cases: int, seed: int) -> str:
    """Return the section of the evidence page."""
    lines = [
        "## Strategies",
        "",
        f"Made by `python -m benchmarks.strategies --cases {cases} --seed {seed}`: so many cases per kernel.",
        "A bug counts as found when one of them shows it on its line. In brackets: Wilson's 95 % interval.",
        "",
        "| strategy | bugs found | cases that show them | correct cases flagged | correct kernels | the study |",
        "|---|---|---|---|---|---|",
    ]
    for strategy in STRATEGIES:
        bugs = [count for count in counts if count.strategy == strategy and count.planted]
        correct = [count for count in counts if count.strategy == strategy and not count.planted]
        cells = (
            share(sum(count.flagged > 0 for count in bugs), len(bugs)),
            share(sum(count.flagged for count in bugs), sum(count.cases for count in bugs)),
            share(sum(count.flagged for count in correct), sum(count.cases for count in correct)),
            f"{sum(count.flagged > 0 for count in correct)} of {len(correct)}",
            _study(strategy),
        )
        lines.append(f"| {strategy} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def share(hits: int, total: int) -> str:
    """Return a share with its interval, in percent."""
    low, high = wilson(hits, total)
    return f"{hits} of {total} = {100 * hits / max(1, total):.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _study(strategy: str) -> str:
    if strategy not in PAPER:
        return "-"
    found, positives = PAPER[strategy]
    return f"{100 * found / 80:.0f} % of cases, {100 * positives / 128:.0f} % flagged"


def main() -> None:
    """Run the corpus and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--counts", type=Path, help="file to which parts append their counts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    specs = corpus_kernels(options.names)
    index, parts = map(int, options.part.split("/"))
    specs = specs[index - 1 :: parts]
    counts: list[Count] = []
    for batch in (specs[start : start + BATCH] for start in range(0, len(specs), BATCH)):
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            futures = [pool.submit(examine, spec, CORPUS.as_posix(), options.seed, options.cases) for spec in batch]
            for future in futures:
                found = future.result()
                counts += found
                for count in found:
                    if (count.flagged and not count.planted) or (count.planted and not count.flagged):
                        kind = "missed" if count.planted else "false positive"
                        print(f"{count.kernel:<28}{count.strategy:<20}{kind}", flush=True)
    if options.counts is not None:
        with options.counts.open("a") as file:
            file.writelines(json.dumps(asdict(count)) + "\n" for count in counts)
        counts = [Count(**json.loads(line)) for line in options.counts.read_text().splitlines()]
    print(render(counts, options.cases, options.seed))


if __name__ == "__main__":
    main()
