"""Baselines and artifact reports of a project, as the commands ``gpuemu baseline``, ``diff`` and ``lint`` make them."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from gpuemu.ops.workers import check_pool
from gpuemu.results import ArtifactResult, BaselineComparison
from gpuemu_lsp.engine.baseline.model import IMPROVEMENT, REGRESSION, SAME, Comparison
from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.measurement import (
    Measurement,
    all_of_them,
    as_measured,
    compared,
    is_tag,
    keep,
    measured_in,
)
from gpuemu_lsp.engine.jobs.model import ArtifactReport
from gpuemu_lsp.engine.jobs.requests.targets import Targets, collect
from gpuemu_lsp.engine.jobs.run import seconds_for
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.report.comparison import render_comparison
from gpuemu_lsp.engine.report.text import TextStyle
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.wire import from_json, to_json

_NOT_MEASURED = ("not-executed", "error")


def store_baseline(root: Path, tag: str) -> tuple[str, ...]:
    """Check every registered kernel and op of a project, and store the measurements under a tag.

    Returns
    -------
    tuple
        The names of the kernels and ops that were measured. A warning names the others.

    Raises
    ------
    ValueError
        If the tag is empty or starts with ``@``, or nothing was measured.
    """
    if not is_tag(tag):
        raise ValueError("the tag of a baseline must not be empty or start with @")
    measured = _measured(root, all_of_them(CheckOptions(store_root=str(root))))
    names = _names(measured)
    if not names:
        raise ValueError(f"nothing was measured, so '{tag}' was not stored{_reasons(measured)}")
    keep(root, tag, measured)
    _warn_of_missing(measured)
    return names


def compare_baseline(root: Path, tag: str) -> BaselineComparison:
    """Check the same cases as those of a baseline, and compare the measurements.

    Raises
    ------
    ValueError
        If there is no such baseline, or nothing was measured.
    """
    with Store(root) as store:
        found = store.baseline(tag) if is_tag(tag) else None
        tags = [name for name, _ in store.baseline_tags()]
    if found is None:
        known = f"known baselines: {', '.join(tags)}" if tags else "none is stored"
        raise ValueError(f"no baseline '{tag}'; {known}")
    measured = _measured(root, as_measured(CheckOptions(store_root=str(root)), found))
    if not _names(measured):
        raise ValueError(f"nothing was measured{_reasons(measured)}")
    _warn_of_missing(measured)
    return _result(compared(tag, found, measured), _missing(measured), str(root))


def lint(root: Path, ptx: str, kernel: str | None) -> ArtifactResult:
    """Compare a PTX module with the limits and patterns of registered kernels.

    Raises
    ------
    ValueError
        If gpuemu.toml has no such kernel, or none of whose entries are in the module.
    """
    targets = collect([str(root)], CheckOptions(), root)
    requests = [one for one in targets.requests if one.registered and one.spec.op is None]
    if kernel is not None:
        names = ", ".join(one.spec.name for one in requests) or "none"
        requests = [one for one in requests if one.spec.name == kernel]
        if not requests:
            raise ValueError(
                f"gpuemu.toml has no kernel '{kernel}', whose limits would apply; its kernels are: {names}"
            )
    with tempfile.TemporaryDirectory(prefix="gpuemu-") as folder, check_pool() as pool:
        path = Path(ptx) if _is_path(ptx) else Path(folder, "kernel.ptx")
        if not _is_path(ptx):
            path.write_text(ptx, encoding="utf-8")
        reports = [report for one in requests for report in _reports(pool, one, str(path.absolute()))]
    if kernel is None:
        reports = [one for one in reports if not any(found.cause is Cause.NO_ENTRY for found in one.findings)]
    if not reports:
        raise ValueError("the module has no entry of a kernel in gpuemu.toml; name one with kernel_name")
    lines = tuple(line for report in reports for line in (*report.lines, *(one.message for one in report.findings)))
    passed = all(report.result == "PASS" for report in reports)
    resources = {name: usage for report in reports for name, usage in report.resources.items()}
    return ArtifactResult(passed, tuple(report.result for report in reports), lines, resources)


def _measured(root: Path, options: CheckOptions) -> Measurement:
    with check_pool() as pool:
        return measured_in(_targets(root, options), pool)


def _targets(root: Path, options: CheckOptions) -> Targets:
    return collect([str(root)], options, root)


def _reasons(measured: Measurement) -> str:
    found = [finding.message.rstrip(".") for finding in measured.run.findings[:3]]
    return f": {'; '.join(found)}" if found else ": gpuemu.toml has no kernel and no op"


def _names(measured: Measurement) -> tuple[str, ...]:
    """Return the kernels and ops that ran."""
    return tuple(one.name for one in measured.run.kernels if one.status not in _NOT_MEASURED)


def _missing(measured: Measurement) -> tuple[str, ...]:
    return tuple(one.name for one in measured.run.kernels if one.status in _NOT_MEASURED)


def _warn_of_missing(measured: Measurement) -> None:
    if missing := _missing(measured):
        warnings.warn(f"not measured: {', '.join(missing)}{_reasons(measured)}", RuntimeWarning, stacklevel=4)


def _result(comparison: Comparison, missing: tuple[str, ...], root: str) -> BaselineComparison:
    def named(verdict: str) -> tuple[str, ...]:
        names = dict.fromkeys(change.kernel for change in comparison.having(verdict))
        return tuple(name for name in names if name not in missing)

    known = {name: named(name) for name in (REGRESSION, IMPROVEMENT, SAME)}
    listed = {name for names in known.values() for name in names} | {*missing}
    others = tuple(dict.fromkeys(change.kernel for change in comparison.changes if change.kernel not in listed))
    upgrades = tuple(dict.fromkeys(change.upgrade for change in comparison.changes if change.upgrade))
    text = render_comparison(comparison, root, TextStyle())
    return BaselineComparison(
        comparison.tag, known[REGRESSION], known[IMPROVEMENT], known[SAME], others, missing, upgrades, text
    )


def _reports(pool: Pool, request: CheckRequest, path: str) -> list[ArtifactReport]:
    payload = {"request": to_json(request), "ptx": path, "emit": False}
    gathered = run_job(pool, Job("lint", payload, wall_seconds=seconds_for(request)))
    if not gathered.done:
        finding = ending_finding(request, gathered.ending)
        return [ArtifactReport(request.spec.name, "", "INCOMPLETE", (), (finding,))]
    return [from_json(ArtifactReport, value) for value in gathered.named("artifact")]


def _is_path(ptx: str) -> bool:
    """Return whether a text is the path of a file, and not PTX, which has several lines."""
    return "\n" not in ptx and Path(ptx).is_file()
