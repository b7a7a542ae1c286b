"""What tolerance a kernel needs, measured: an envelope of the errors of some cases, tried on others.

The envelope is a percentile of the least tolerance each case needs, times a margin (p95 x 1.5 in the original's study).
It is never judged on the cases it was made of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.check.model import CheckOptions, CheckRequest, KernelReport
from gpuemu_lsp.engine.fuzz.rng import derive_seed
from gpuemu_lsp.engine.jobs.run import Runner, run_requests
from gpuemu_lsp.engine.project.model import Tolerance
from gpuemu_lsp.engine.report.model import Run

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
"""The original's tables, by name."""


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """How to calibrate: an envelope of this percentile and margin, or, with ``profile``, a table of the original's."""

    percentile: float = PERCENTILE
    margin: float = MARGIN
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class ToleranceEnvelope:
    """A tolerance for one output dtype of a kernel, and its evidence.

    ``fitted`` cases gave it (0 for a table's), ``largest`` is the most any of them needs. ``held`` cases, drawn from
    another seed, were judged with it, and ``exceeded`` of them failed.
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
    """The envelopes, why other kernels have none, and the two runs."""

    envelopes: tuple[ToleranceEnvelope, ...]
    skipped: Mapping[str, str]
    runs: tuple[Run, ...]


def calibrate(requests: Sequence[CheckRequest], root: str, wanted: CalibrationOptions, runner: Runner) -> Calibration:
    """Measure, fit, and try on other cases. A kernel that fails under the derived budget gets no tolerance."""
    plain = [replace(one, spec=replace(one.spec, tolerances={}), options=_all_cases(one)) for one in requests]
    first = run_requests(plain, (), root, runner)
    reports = {report.name: report for report in first.kernels}
    skipped: dict[str, str] = {}
    envelopes: list[ToleranceEnvelope] = []
    for request in plain:
        report = reports[request.spec.name]
        found = _fitted(report, wanted)
        if report.status != "passed":
            skipped[report.name] = _why_not(report)
        elif not found:
            skipped[report.name] = "all its outputs are exact: there is nothing to tolerate"
        else:
            envelopes += found
    held = [_held_out(one, envelopes) for one in plain if any(item.kernel == one.spec.name for item in envelopes)]
    second = run_requests(held, (), root, runner)
    counts = {
        (report.name, measured.dtype): measured.cases for report in second.kernels for measured in report.measured
    }
    tried = []
    for envelope in envelopes:
        of_kernel = [count for (name, _), count in counts.items() if name == envelope.kernel]
        run = sum(count.run for count in of_kernel)
        tried.append(replace(envelope, held=run, exceeded=run - sum(count.passed for count in of_kernel)))
    return Calibration(tuple(tried), skipped, (first, second))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[round(percent / 100.0 * (len(ordered) - 1))]


def bound(needed: Sequence[float], percent: float, margin: float) -> float:
    """Return the tolerance that an envelope of what some cases need has."""
    return rounded_up(margin * percentile(needed, percent))


def evidence(envelope: ToleranceEnvelope, wanted: CalibrationOptions, seed: int) -> str:
    """Return in one line where a tolerance comes from."""
    held = f"{envelope.exceeded} of {envelope.held} other cases exceed it"
    if wanted.profile is not None:
        return f"profile {wanted.profile}; {held}"
    how = f"p{wanted.percentile:g} x {wanted.margin:g} of {envelope.fitted} cases (seed {seed})"
    return f"{how}, largest {envelope.largest:.2g}; {held}"


def rounded_up(value: float) -> float:
    """Return a number with two digits that is no smaller."""
    if not value:
        return 0.0
    digits = 1 - math.floor(math.log10(value))
    return float(f"{math.ceil(value * 10.0**digits) / 10.0**digits:.2g}")


def _fitted(report: KernelReport, wanted: CalibrationOptions) -> list[ToleranceEnvelope]:
    needed: dict[str, tuple[float, ...]] = {}
    for measured in report.measured:
        for dtype, values in measured.needed.items():
            needed[dtype] = (*needed.get(dtype, ()), *values)
    found = []
    for dtype, values in sorted(needed.items()):
        table = PROFILES[wanted.profile].get(dtype) if wanted.profile is not None else None
        if wanted.profile is not None and table is not None:
            found.append(ToleranceEnvelope(report.name, dtype, table, 0, max(values)))
        elif wanted.profile is None and max(values) > 0.0:
            least = bound(values, wanted.percentile, wanted.margin)
            found.append(ToleranceEnvelope(report.name, dtype, Tolerance(least, least), len(values), max(values)))
    return found


def _held_out(request: CheckRequest, envelopes: Sequence[ToleranceEnvelope]) -> CheckRequest:
    mine = {item.dtype: item.tolerance for item in envelopes if item.kernel == request.spec.name}
    seed = derive_seed(request.options.seed, "held out")
    options = replace(request.options, seed=seed, seed_given=True)
    return replace(request, spec=replace(request.spec, tolerances=mine), options=options)


def _all_cases(request: CheckRequest) -> CheckOptions:
    """Run every case however many fail, with a seed that is known, and leave the project's failing cases alone."""
    options, configured = request.options, request.validation.seed
    seed = options.seed if options.seed_given or configured is None else configured
    return replace(options, seed=seed, seed_given=True, max_failures=options.most, store_root=None)


def _why_not(report: KernelReport) -> str:
    if report.status == "failed":
        return "it fails where rounding does not explain it: gpuemu test says how"
    if report.status == "unreferenced":
        return "it has no reference to be compared with"
    return "it was not run: gpuemu test says why"
