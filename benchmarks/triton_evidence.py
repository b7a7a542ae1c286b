"""Detection rate and false positives in Triton: the kernels of ``kernels/triton`` under many seeds.

    python -m benchmarks.triton_evidence [--seeds 10] [--cases 16] [--jobs N] [--output FILE] [NAME ...]

Needs an environment with Triton. Each kernel is checked under each seed with the cases of a check on save; a correct
one also with half as many adversarial cases.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.page import put
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from tests.support.corpus import CORPUS, triton_projects
from tests.support.expectations import Expectations, read_expectations

BATCH = 30
"""Kernels per set of processes, whose memory grows with each kernel."""


@dataclass(frozen=True, slots=True)
class TritonRow:
    """The results of one kernel under all seeds.

    ``hits`` is the number of seeds with a finding of the planted bug on its line or, for a correct kernel, with a false
    positive. ``unjudged`` is the number of seeds under which it did not run. ``first`` is the number of the first
    failing case under each seed that has one, ``worst`` the largest error of a right case as a fraction of the allowed
    error.
    """

    name: str
    planted: bool
    seeds: int
    hits: int
    unjudged: int
    cases: int
    rules: tuple[str, ...]
    lines: tuple[int, ...]
    first: tuple[int, ...]
    worst: float
    others: tuple[str, ...]
    """Findings of a planted bug's kernel on other lines, as ``rule:line``."""


def check(
    spec: KernelSpec, *, seed: int, cases: int, expectations: Expectations
) -> tuple[list[Finding], list[KernelReport]]:
    """Check a kernel under one seed; return its findings and one report for each strategy."""
    findings: list[Finding] = []
    reports: list[KernelReport] = []
    strategies = (("quick", cases), ("adversarial", cases // 2)) if expectations.clean else (("quick", cases),)
    for strategy, count in strategies:
        options = CheckOptions(cases=count, seed=seed, seed_given=True, strategy=strategy)
        events = list(check_kernel(CheckRequest(spec, options, root=CORPUS.as_posix())))
        findings += [event for event in events if isinstance(event, Finding)]
        reports += [event for event in events if isinstance(event, KernelReport)]
    return findings, reports


def shown(findings: Iterable[Finding], expectations: Expectations) -> list[Finding]:
    """Return the findings of the planted bug on its line or, for a correct kernel, every error and warning."""
    if not expectations.clean:
        return list(expectations.found(findings))
    return [finding for finding in findings if finding.severity in (Severity.ERROR, Severity.WARNING)]


def measure(spec: KernelSpec, seeds: int, cases: int) -> TritonRow:
    """Check one kernel under every seed."""
    expectations = read_expectations(Path(spec.source))
    rules: Counter[str] = Counter()
    lines: Counter[int] = Counter()
    others: Counter[str] = Counter()
    first: list[int] = []
    hits = unjudged = run = 0
    worst = 0.0
    for seed in range(1, seeds + 1):
        findings, reports = check(spec, seed=seed, cases=cases, expectations=expectations)
        found = shown(findings, expectations)
        hits += bool(found)
        unjudged += any(report.status not in ("passed", "failed") or not report.cases.run for report in reports)
        run += sum(report.cases.run for report in reports)
        rules.update({finding.rule for finding in found})
        lines.update({_line(finding) for finding in found})
        others.update({f"{one.rule}:{_line(one)}" for one in findings if one not in found})
        first += [report.first_failure for report in reports[:1] if report.first_failure is not None]
        worst = max([worst, *(report.worst for report in reports if report.worst is not None)])
    return TritonRow(
        name=spec.name.removeprefix("triton_"),
        planted=not expectations.clean,
        seeds=seeds,
        hits=hits,
        unjudged=unjudged,
        cases=run,
        rules=tuple(rule for rule, _ in rules.most_common()),
        lines=tuple(line for line, _ in lines.most_common()),
        first=tuple(first),
        worst=worst,
        others=tuple(other for other, _ in others.most_common()),
    )


def _line(finding: Finding) -> int:
    return finding.place.range.start.line + 1


def render(rows: Sequence[TritonRow], seeds: int, cases: int, seconds: float) -> str:
    """Return the section of the page on the Triton corpus."""
    planted = [row for row in rows if row.planted]
    correct = [row for row in rows if not row.planted]
    found = sum(row.hits == row.seeds for row in planted)
    flagged = sum(row.hits > 0 for row in correct)
    unjudged = [row.name for row in rows if row.unjudged]
    minutes = seconds / 60
    text = [
        "## The Triton corpus",
        "",
        f"Made by `python -m benchmarks.triton_evidence --seeds {seeds} --cases {cases}` in {minutes:.0f} minutes,",
        f"with {cases} cases per dtype and seed; for correct kernels half as many adversarial ones as well.",
        "",
        f"- Planted bugs found on their line under every seed: **{found} of {len(planted)}**.",
        f"- Correct kernels with an error or warning under any seed: **{flagged} of {len(correct)}**.",
        f"- Kernels that did not run under some seed: {', '.join(unjudged) or 'none'}.",
        "",
        "`first` is the first failing case, median and maximum over the seeds.",
        "",
        "| planted bug | found as | line | seeds | first | also |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row.name} | {', '.join(row.rules) or '-'} | {', '.join(map(str, row.lines)) or '-'} "
            f"| {row.hits}/{row.seeds} | {_first(row)} | {', '.join(row.others) or '-'} |"
            for row in planted
        ),
        "",
        "`worst` is the largest error as a fraction of the allowed one, or of its lower bound if within that.",
        "",
        "| correct kernel | cases | false positives | worst |",
        "|---|---|---|---|",
        *(f"| {row.name} | {row.cases} | {', '.join(row.rules) or 'none'} | {row.worst:.2f} |" for row in correct),
    ]
    return "\n".join(text) + "\n"


def _first(row: TritonRow) -> str:
    return f"{statistics.median(row.first):.0f} / {max(row.first)}" if row.first else "-"


def main() -> None:
    """Measure the Triton corpus and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cases", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    every = [spec for project in triton_projects() for spec in project.kernels]
    specs = [spec for spec in every if not options.names or spec.name in options.names]
    started = time.perf_counter()
    rows = []
    for batch in (specs[start : start + BATCH] for start in range(0, len(specs), BATCH)):
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            for future in [pool.submit(measure, spec, options.seeds, options.cases) for spec in batch]:
                row = future.result()
                rows.append(row)
                kind = "bug" if row.planted else "correct"
                remark = f"  not run under {row.unjudged} seeds" if row.unjudged else ""
                print(f"{row.name:<30}{kind:<9}{row.hits:>3}/{row.seeds}{remark}", flush=True)
    put(options.output, "triton corpus", render(rows, options.seeds, options.cases, time.perf_counter() - started))


if __name__ == "__main__":
    main()
