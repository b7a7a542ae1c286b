"""Calibration: tolerances fitted to the measured errors of some cases and validated on held-out cases.

The tolerance is a percentile of the smallest tolerance that each case needs, times a margin (p95 x 1.5 by default, as
in the original gpuemu). It is never validated on the cases it was fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.fuzz.rng import derive_seed
from gpuemu_lsp.engine.jobs.run import Runner, run_requests
from gpuemu_lsp.engine.project.model import Tolerance
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

PERCENTILE, MARGIN = 95.0, 1.5

PROFILES: Mapping[str, Mapping[str, Tolerance]] = {
    "default": {
        "float16": Tolerance(1e-3, 1e-2),
        "bfloat16": Tolerance(1e-2, 1e-1),
        "float32": Tolerance(1e-5, 1e-4),
        "float64": Tolerance(1e-10, 1e-9),
    },
    "strict": {
        "float16": Tolerance(1e-4, 1e-3),
        "bfloat16": Tolerance(1e-3, 1e-2),
        "float32": Tolerance(1e-6, 1e-5),
        "float64": Tolerance(1e-12, 1e-11),
    },
    "relaxed": {
        "float16": Tolerance(1e-2, 1e-1),
        "bfloat16": Tolerance(5e-2, 5e-1),
        "float32": Tolerance(1e-4, 1e-3),
        "float64": Tolerance(1e-8, 1e-7),
    },
    "production": {
        "float16": Tolerance(5e-4, 5e-3),
        "bfloat16": Tolerance(5e-3, 5e-2),
        "float32": Tolerance(1e-6, 1e-5),
        "float64": Tolerance(1e-12, 1e-11),
    },
}
"""The fixed tables of the original gpuemu, by name and output dtype."""


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """Parameters of a calibration. With ``profile``, a fixed table is validated instead of fitting tolerances."""

    percentile: float = PERCENTILE
    margin: float = MARGIN
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class ToleranceEnvelope:
    """A tolerance for one output dtype of a kernel, and its evidence.

    It was fitted to ``fitted`` cases (0 for a table), the largest tolerance that any of them needs is ``largest``.
    ``held`` held-out cases, drawn from another seed, were checked with it, and ``exceeded`` of them failed.
    """

    kernel: str
    dtype: str
    tolerance: Tolerance
    fitted: int
    largest: float
    held: int = 0
    exceeded: int = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """The tolerances, the reasons why other kernels have none, and the fitting and validation runs."""

    envelopes: tuple[ToleranceEnvelope, ...]
    skipped: Mapping[str, str]
    runs: tuple[Run, ...]


def calibrate(requests: Sequence[CheckRequest], root: str, how: CalibrationOptions, runner: Runner) -> Calibration:
    """Measure, fit, and validate on held-out cases.

    A kernel that fails under the derived error budget gets no tolerance: a fitted one would hide its error.
    """
    untoleranced = [replace(one, spec=replace(one.spec, tolerances={}), options=_all_cases(one)) for one in requests]
    first = run_requests(untoleranced, (), root, runner)
    reports = {report.name: report for report in first.kernels}
    skipped: dict[str, str] = {}
    envelopes: list[ToleranceEnvelope] = []
    for request in untoleranced:
        report = reports[request.spec.name]
        fitted = _fitted(report, how)
        if report.status != "passed":
            skipped[report.name] = _why_not(report)
        elif not fitted:
            skipped[report.name] = "all its outputs are exact, so it needs no tolerance"
        else:
            envelopes += fitted
    held = [
        _held_out(one, envelopes) for one in untoleranced if any(item.kernel == one.spec.name for item in envelopes)
    ]
    second = run_requests(held, (), root, runner)
    counts = {
        (report.name, measured.dtype): measured.cases for report in second.kernels for measured in report.measured
    }
    validated = []
    for envelope in envelopes:
        of_kernel = [count for (name, _), count in counts.items() if name == envelope.kernel]
        run = sum(count.run for count in of_kernel)
        validated.append(replace(envelope, held=run, exceeded=run - sum(count.passed for count in of_kernel)))
    return Calibration(tuple(validated), skipped, (first, second))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the ``percent``-th percentile of ``values`` (nearest rank)."""
    ordered = sorted(values)
    return ordered[round(percent / 100.0 * (len(ordered) - 1))]


def bound(needed: Sequence[float], percent: float, margin: float) -> float:
    """Return the tolerance fitted to the tolerances ``needed`` by some cases."""
    return rounded_up(margin * percentile(needed, percent))


def evidence(envelope: ToleranceEnvelope, how: CalibrationOptions, seed: int) -> str:
    """Return the origin of a tolerance in one line."""
    held = f"{envelope.exceeded} of {envelope.held} other cases exceed it"
    if how.profile is not None:
        return f"profile {how.profile}; {held}"
    fit = f"p{how.percentile:g} x {how.margin:g} of {envelope.fitted} cases (seed {seed})"
    return f"{fit}, largest {envelope.largest:.2g}; {held}"


def rounded_up(value: float) -> float:
    """Return ``value`` rounded up to two significant digits."""
    if not value:
        return 0.0
    digits = 1 - math.floor(math.log10(value))
    return float(f"{math.ceil(value * 10.0**digits) / 10.0**digits:.2g}")


def _fitted(report: KernelReport, how: CalibrationOptions) -> list[ToleranceEnvelope]:
    needed: dict[str, tuple[float, ...]] = {}
    for measured in report.measured:
        for dtype, values in measured.needed.items():
            needed[dtype] = (*needed.get(dtype, ()), *values)
    envelopes = []
    for dtype, values in sorted(needed.items()):
        table = PROFILES[how.profile].get(dtype) if how.profile is not None else None
        if how.profile is not None and table is not None:
            envelopes.append(ToleranceEnvelope(report.name, dtype, table, 0, max(values)))
        elif how.profile is None and max(values) > 0.0:
            least = bound(values, how.percentile, how.margin)
            envelopes.append(ToleranceEnvelope(report.name, dtype, Tolerance(least, least), len(values), max(values)))
    return envelopes


def _held_out(request: CheckRequest, envelopes: Sequence[ToleranceEnvelope]) -> CheckRequest:
    fitted = {item.dtype: item.tolerance for item in envelopes if item.kernel == request.spec.name}
    seed = derive_seed(request.options.seed, "held out")
    options = replace(request.options, seed=seed, seed_given=True)
    return replace(request, spec=replace(request.spec, tolerances=fitted), options=options)


def _all_cases(request: CheckRequest) -> CheckOptions:
    """Return options to run every case, however many fail, with a fixed seed and without the project's store."""
    options, configured = request.options, request.validation.seed
    seed = options.seed if options.seed_given or configured is None else configured
    return replace(options, seed=seed, seed_given=True, max_failures=options.most, store_root=None)


def _why_not(report: KernelReport) -> str:
    if report.status == "failed":
        return "it fails by more than rounding explains; run gpuemu test for details"
    if report.status == "unreferenced":
        return "it has no reference"
    return "it was not run; run gpuemu test for details"
