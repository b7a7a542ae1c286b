"""Comparison of tolerances, derived, calibrated or from a table: numeric bugs found and false positives.

    python -m benchmarks.tolerance [--cases N] [--seed S] [--strategy NAME] [--jobs N] [--output FILE]
        [NAME ...]

Three are tried on the same runs: the budget that is derived per element when nothing is configured, the envelope that
``gpuemu calibrate`` writes (p95 x 1.5 of N cases of the correct kernel), and the original's default table. As in the
original's study a bug is judged with the envelope of its correct counterpart. Unlike there, the judged cases are not
those the envelope was measured on: they are drawn from another seed. Only wrong values count, as tolerances affect
nothing else.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from benchmarks.page import put
from benchmarks.strategies import share
from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.dtypes import is_float
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.rng import derive_seed
from gpuemu_lsp.engine.jobs.calibration import MARGIN, PERCENTILE, PROFILES, bound
from gpuemu_lsp.engine.oracle import ComparisonResult, JudgingPolicy, ReferenceEvaluation, ReferenceOutput, judge
from gpuemu_lsp.engine.oracle.inputs import compared_tensors
from gpuemu_lsp.engine.project.model import KernelSpec, Tolerance
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from tests.support.corpus import CORPUS, corpus_kernels
from tests.support.expectations import read_expectations

BATCH = 40
WAYS = (
    "derived per element",
    f"p{PERCENTILE:g} x {MARGIN:g}, calibrated",
    "original's table",
)
_NUMERIC = frozenset({"numeric/tolerance-exceeded", "numeric/nan", "numeric/inf"})


@dataclass(frozen=True, slots=True)
class Count:
    """Cases of one dtype of a kernel, and the number each tolerance flagged, in the order of :data:`WAYS`."""

    kernel: str
    dtype: str
    planted: bool
    cases: int
    flagged: tuple[int, ...]


def examine(spec: KernelSpec, bugs: Sequence[KernelSpec], root: str, seed: int, cases: int, how: str) -> list[Count]:
    """Measure the envelopes of a correct kernel; judge other cases of it and of its bugs with them."""
    counts = []
    others = [(True, {run.plan.dtype: run for run in _opened(bug, root)}) for bug in bugs]
    for run in _opened(spec, root):
        dtype = run.plan.dtype
        if not any(is_float(arg.dtype) for arg in compared_tensors(run.plan)):
            continue
        ways = ({}, _envelopes(run, seed, cases, how), dict(PROFILES["default"]))
        held = derive_seed(seed, "held out")
        tried = [(False, run), *((planted, runs[dtype]) for planted, runs in others if dtype in runs)]
        counts += [_count(other, planted, held, cases, how, ways) for planted, other in tried]
    return counts


def _opened(spec: KernelSpec, root: str) -> list[PlanRun]:
    request = CheckRequest(spec, CheckOptions(), root=root)
    prepared = prepare(request)
    executor, _ = choose_executor(request, prepared)
    assert executor is not None
    return [open_plan(request, prepared, plan, executor) for plan in prepared.plans]


def _envelopes(run: PlanRun, seed: int, cases: int, how: str) -> dict[str, Tolerance]:
    needed: dict[str, list[float]] = {}
    for case, expected, outcome in _ran(run, seed, cases, how):
        for dtype, value in _judged(run, case, expected, outcome, {}).needed.items():
            needed.setdefault(dtype, []).append(value)
    bounds = {dtype: bound(values, PERCENTILE, MARGIN) for dtype, values in needed.items() if max(values) > 0.0}
    return {dtype: Tolerance(value, value) for dtype, value in bounds.items()}


def _count(
    run: PlanRun, planted: bool, seed: int, cases: int, how: str, ways: Sequence[Mapping[str, Tolerance]]
) -> Count:
    flagged, total = [0] * len(ways), 0
    for case, expected, outcome in _ran(run, seed, cases, how):
        total += 1
        for index, tolerances in enumerate(ways):
            verdict = _judged(run, case, expected, outcome, tolerances)
            flagged[index] += any(one.rule in _NUMERIC and one.severity is None for one in verdict.mismatches)
    return Count(run.plan.kernel, run.plan.dtype, planted, total, tuple(flagged))


def _ran(run: PlanRun, seed: int, cases: int, how: str) -> Iterator[tuple[Case, ReferenceOutput, Outcome]]:
    for case in draw_cases(run.plan, seed, cases, run.context.hints, how):
        expected = run.expect(case)
        outcome = run.runner.run(case)
        if expected is not None and outcome.status == "completed":
            yield case, expected, outcome


def _judged(
    run: PlanRun, case: Case, expected: ReferenceOutput, outcome: Outcome, tolerances: Mapping[str, Tolerance]
) -> ComparisonResult:
    numerics = replace(run.judge.numerics, approximate=outcome.approximate)
    assert run.judge.reference is not None
    evaluation = ReferenceEvaluation(run.judge.reference, run.plan, case, expected, numerics)
    return judge(run.plan, case, outcome, evaluation, JudgingPolicy(tolerances, run.context.request.validation))


def counterparts(specs: Sequence[KernelSpec]) -> Iterator[tuple[KernelSpec, list[KernelSpec]]]:
    """Yield each correct kernel with the numeric bugs planted in it: same reference and, if possible, same name."""
    correct = {spec.name: spec for spec in specs if not spec.name.endswith("_buggy")}
    bugs: dict[str, list[KernelSpec]] = {name: [] for name in correct}
    for spec in specs:
        claims = read_expectations(Path(spec.source)).required
        if spec.name in correct or not any(claim.rules & _NUMERIC for claim in claims):
            continue
        same = [one for one in correct.values() if _reference(one) == _reference(spec)]
        named = [one for one in same if one.name == spec.name.removesuffix("_buggy")]
        bugs[(named or same)[0].name].append(spec)
    for name, spec in correct.items():
        yield spec, bugs[name]


def _reference(spec: KernelSpec) -> tuple[str | None, str | None]:
    return spec.reference, spec.reference_function


def render(counts: Sequence[Count], options: argparse.Namespace, minutes: float) -> str:
    """Return the section of the page."""
    lines = [
        "## Tolerances",
        "",
        f"Made by `python -m benchmarks.tolerance --cases {options.cases} --seed {options.seed} --strategy "
        f"{options.strategy}` in {minutes:.0f} minutes: kernels with float outputs, {options.cases} cases",
        "per dtype that no envelope was made of, the same runs judged three times. A bug is judged with the envelope",
        "of its correct counterpart. Only errors of values count, so what the checkers find is not in here.",
        "In brackets: Wilson's 95 % interval.",
        "",
        "| tolerance | numeric bugs found | cases that show them | correct cases flagged | correct kernels flagged |",
        "|---|---|---|---|---|",
    ]
    bugs = [count for count in counts if count.planted]
    correct = [count for count in counts if not count.planted]
    for index, way in enumerate(WAYS):
        found, positives = ({one.kernel for one in group if one.flagged[index]} for group in (bugs, correct))
        cells = (
            share(len(found), len({one.kernel for one in bugs})),
            share(sum(one.flagged[index] for one in bugs), sum(one.cases for one in bugs)),
            share(sum(one.flagged[index] for one in correct), sum(one.cases for one in correct)),
            share(len(positives), len({one.kernel for one in correct})),
        )
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Judge the corpus and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="correct kernels (default: all)")
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--strategy", default="quick")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    pairs = [pair for pair in counterparts(corpus_kernels()) if not options.names or pair[0].name in options.names]
    started = time.perf_counter()
    counts: list[Count] = []
    for batch in (pairs[start : start + BATCH] for start in range(0, len(pairs), BATCH)):
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            given = (CORPUS.as_posix(), options.seed, options.cases, options.strategy)
            for future in [pool.submit(examine, spec, bugs, *given) for spec, bugs in batch]:
                counts += (found := future.result())
                for one in found:
                    kind = "bug" if one.planted else "correct"
                    flagged = "  ".join(f"{count:>3}" for count in one.flagged)
                    print(f"{one.kernel:<28}{one.dtype:<10}{kind:<9}{one.cases:>4}: {flagged}", flush=True)
    minutes = (time.perf_counter() - started) / 60
    put(options.output, "tolerances", render(counts, options, minutes))


if __name__ == "__main__":
    main()
