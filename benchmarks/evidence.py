"""Detection rate and false positives: the whole corpus under many seeds.

    python -m benchmarks.evidence [--seeds 20] [--cases 32] [--jobs N] [--output FILE] [NAME ...]

Each kernel is checked under each seed. Three quarters of the cases are those of a check on save, one quarter has
adversarial values (zeros, denormals, huge numbers, NaN and infinity where no range excludes them). For comparison, each
kernel gets a conventional unit test: one typical shape, standard normal values, ``allclose`` against the same fp64
reference, on the same emulator with its checkers disabled.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.page import put
from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.execution import Buffer, Checks
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import pack_arguments, rebuild
from gpuemu_lsp.engine.fuzz.dtypes import is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.fuzz.pack import unpack
from gpuemu_lsp.engine.plan.model import TensorArg
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from tests.support.corpus import CORPUS, corpus_kernels
from tests.support.expectations import Expectations, read_expectations

ROOT = Path(__file__).parent.parent
TYPICAL = 256
"""Size of a unit test's dims, where their ranges allow it."""
BATCH = 40
"""Kernels per set of processes, whose memory grows with each kernel."""
CLOSE = {"float16": (1e-3, 1e-3), "bfloat16": (1e-2, 1e-2)}
"""rtol and atol of the unit test by output dtype; ``allclose``'s own 1e-5 and 1e-8 for the others."""


@dataclass(frozen=True, slots=True)
class CorpusRow:
    """The results of one kernel under all seeds.

    ``hits`` is the number of seeds with a finding of the planted bug on its line or, for a correct kernel, with a false
    positive. ``first`` is the number of the first failing case under each seed that has one.
    """

    name: str
    planted: bool
    pending: bool
    hits: int
    seeds: int
    cases: int
    rules: tuple[str, ...]
    lines: tuple[int, ...]
    first: tuple[int, ...]
    worst: float
    unit_test: str
    trouble: tuple[str, ...]


# ---- the check -------------------------------------------------------------------------------------------------------


def measure(spec: KernelSpec, root: str, seeds: int, cases: int) -> CorpusRow:
    """Check one kernel under every seed, and run its unit test."""
    expectations = read_expectations(Path(spec.source))
    planted = not expectations.clean
    rules: Counter[str] = Counter()
    lines: Counter[int] = Counter()
    first: list[int] = []
    trouble: set[str] = set()
    worst, hits, run = 0.0, 0, 0
    for seed in range(1, seeds + 1):
        findings, reports = _both(spec, root, seed, cases, planted and bool(expectations.required), expectations)
        shown = expectations.found(findings) if planted else _errors_and_warnings(findings)
        hits += bool(shown)
        run += sum(report.cases.run for report in reports)
        rules.update({finding.rule for finding in shown})
        lines.update({finding.place.range.start.line + 1 for finding in shown})
        first += [report.first_failure for report in reports[:1] if report.first_failure is not None]
        worst = max([worst, *(report.worst for report in reports if report.worst is not None)])
        trouble |= {finding.rule for finding in findings if finding.rule.startswith(("engine/", "reference/"))}
    return CorpusRow(
        name=spec.name,
        planted=planted,
        pending=planted and not expectations.required,
        hits=hits,
        seeds=seeds,
        cases=run,
        rules=tuple(rule for rule, _ in rules.most_common()),
        lines=tuple(line for line, _ in lines.most_common()),
        first=tuple(first),
        worst=worst,
        unit_test=unit_test(spec, root),
        trouble=tuple(sorted(trouble)),
    )


def _both(
    spec: KernelSpec, root: str, seed: int, cases: int, may_stop: bool, expectations: Expectations
) -> tuple[list[Finding], list[KernelReport]]:
    """Run the cases of a check on save, then the adversarial ones unless the bug has been found."""
    hard = cases // 4
    findings: list[Finding] = []
    reports: list[KernelReport] = []
    for strategy, count in (("quick", cases - hard), ("adversarial", hard)):
        options = CheckOptions(cases=count, seed=seed, seed_given=True, strategy=strategy)
        events = list(check_kernel(CheckRequest(spec, options, root=root)))
        findings += [event for event in events if isinstance(event, Finding)]
        reports += [event for event in events if isinstance(event, KernelReport)]
        if may_stop and expectations.found(findings):
            break
    return findings, reports


def _errors_and_warnings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.severity in (Severity.ERROR, Severity.WARNING))


# ---- the unit test ---------------------------------------------------------------------------------------------------


def unit_test(spec: KernelSpec, root: str) -> str:
    """Return ``passes``, ``fails`` or ``stops`` (a trap or a hang): the worst result of the dtypes."""
    request = CheckRequest(spec, CheckOptions(), root=root)
    prepared = prepare(request)
    executor, _ = choose_executor(request, prepared)
    assert executor is not None
    results = [_unit_test(open_plan(request, prepared, plan, executor)) for plan in prepared.plans]
    return max(results, key=("passes", "fails", "stops").index)


def _unit_test(run: PlanRun) -> str:
    plan = run.plan
    sizes = {dim.name: _typical(dim) for dim in plan.dims}
    drawn = (rebuild(plan, CaseKey(seed, "default/uniform", sizes)) for seed in itertools.count(1))
    case = _normal(run, next(case for case in drawn if not case.extra))  # a unit test's tensors are contiguous
    expected = run.expect(case)
    assert expected is not None
    launch = replace(
        run.runner.launch,
        grid=case.grid,
        block=case.block,
        shared_bytes=case.shared_bytes,
        arguments=tuple(
            # A framework's allocator returns memory with old contents. Zeros stand for it, to be reproducible.
            replace(argument, data=np.zeros_like(argument.data), initialized=True)
            if isinstance(argument, Buffer) and not argument.initialized
            else argument
            for argument in pack_arguments(plan, case)
        ),
        checks=Checks(bounds=False, uninitialized=False, races=False, sync=False),
    )
    outcome = run.runner.executor.run(launch)
    if outcome.status != "completed":
        return "stops"
    for arg in plan.args:
        if not isinstance(arg, TensorArg) or arg.direction == "in":
            continue
        actual = unpack(arg, case, outcome.buffers[arg.param])
        assert actual is not None
        rtol, atol = CLOSE.get(arg.dtype, (1e-5, 1e-8))
        wanted = expected.arrays[arg.param].astype(np.float64)
        if not np.allclose(actual.astype(np.float64), wanted, rtol=rtol, atol=atol, equal_nan=True):
            return "fails"
    return "passes"


def _typical(dim: DimSpec) -> int:
    """Return the largest power of two up to ``TYPICAL`` that the dim allows."""
    low, high = dim.minimum or 1, dim.maximum or TYPICAL
    power = 1 << (min(high, TYPICAL).bit_length() - 1)
    return max(low, power // dim.multiple_of * dim.multiple_of)


def _normal(run: PlanRun, case: Case) -> Case:
    """Replace the float inputs by standard normal values, inside their ranges; integers stay as drawn."""
    rng = np.random.default_rng(0)
    tensors = dict(case.tensors)
    for arg in run.plan.args:
        if isinstance(arg, TensorArg) and arg.param in tensors and is_float(arg.dtype):
            drawn = rng.standard_normal(tensors[arg.param].shape)
            if arg.range is not None:
                low, high = (bound if isinstance(bound, float) else -np.inf for bound in arg.range)
                drawn = np.clip(drawn, low, high)
            tensors[arg.param] = drawn.astype(numpy_dtype(arg.dtype))
    return replace(case, tensors=tensors)


# ---- the table -------------------------------------------------------------------------------------------------------


def render(rows: Sequence[CorpusRow], seeds: int, cases: int, seconds: float) -> str:
    """Return the section of the page on the corpus."""
    planted = [row for row in rows if row.planted and not row.pending]
    pending = [row for row in rows if row.pending]
    correct = [row for row in rows if not row.planted]
    found = sum(row.hits == row.seeds for row in planted)
    quiet = sum(row.hits == 0 for row in correct)
    unit_found, unit_false = (sum(row.unit_test != "passes" for row in group) for group in (planted, correct))
    bugs, others = len(planted), len(correct)
    text = [
        "## The corpus",
        "",
        f"Made by `python -m benchmarks.evidence --seeds {seeds} --cases {cases}` in {seconds / 60:.0f} minutes.",
        f"{seeds} master seeds, {cases} cases per dtype and seed, a quarter of them with adversarial values; all runs",
        "in the emulator.",
        "",
        "| | this check | one-shape `allclose` |",
        "|---|---|---|",
        f"| planted bugs found | **{found} of {bugs}** under every seed | {unit_found} of {bugs} |",
        f"| false positives | **{others - quiet} of {others}** kernels under any seed | {unit_false} of {others} |",
        "",
        f"`allclose` is a conventional unit test: one typical shape (powers of two up to {TYPICAL}), normal values,",
        "rtol 1e-5, atol 1e-8 (1e-3 for half outputs), the same fp64 reference and emulator, without its checkers.",
        "",
        "### Planted bugs",
        "",
        "`seeds`: seeds with a finding on the bug's line; `first`: first failing case, median and maximum",
        "over the seeds.",
        "",
        "| kernel | found as | line | seeds | first | `allclose` |",
        "|---|---|---|---|---|---|",
        *(_planted_row(row) for row in planted),
        "",
        "### Correct kernels",
        "",
        "`worst` is the largest error of any case as a fraction of the allowed error.",
        "",
        "| kernel | cases | false positives | worst | `allclose` |",
        "|---|---|---|---|---|",
        *(
            f"| {row.name} | {row.cases} | {_false_positives(row)} | {row.worst:.2f} | {row.unit_test} |"
            for row in correct
        ),
    ]
    if pending:
        names = ", ".join(row.name for row in pending)
        text += ["", "### Without a checker", "", f"Planted bugs that no checker finds yet: {names}."]
    return "\n".join(text) + "\n"


def _planted_row(row: CorpusRow) -> str:
    first = f"{statistics.median(row.first):.0f} / {max(row.first)}" if row.first else "-"
    where = ", ".join(map(str, row.lines)) or "-"
    rules = ", ".join(row.rules) or "-"
    return f"| {row.name} | {rules} | {where} | {row.hits}/{row.seeds} | {first} | {row.unit_test} |"


def _false_positives(row: CorpusRow) -> str:
    return "none" if row.hits == 0 else f"{row.hits}/{row.seeds}: {', '.join(row.rules)}"


def main() -> None:
    """Measure the corpus and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--cases", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    specs = corpus_kernels(options.names)
    started = time.perf_counter()
    rows = []
    for batch in (specs[start : start + BATCH] for start in range(0, len(specs), BATCH)):
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            futures = [pool.submit(measure, spec, CORPUS.as_posix(), options.seeds, options.cases) for spec in batch]
            for future in futures:
                row = future.result()
                rows.append(row)
                kind = "bug" if row.planted else "correct"
                remark = f"  ({', '.join(row.trouble)})" if row.trouble else ""
                print(f"{row.name:<28}{kind:<9}{row.hits:>3}/{row.seeds}{remark}", flush=True)
    page = render(rows, options.seeds, options.cases, time.perf_counter() - started)
    put(options.output, "corpus", page)


if __name__ == "__main__":
    main()
