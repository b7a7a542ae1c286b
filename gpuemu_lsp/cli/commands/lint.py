"""``gpuemu lint``: artifact reports of registered kernels."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from gpuemu_lsp.cli.commands.check import find_targets
from gpuemu_lsp.cli.output import OutputOptions, print_out
from gpuemu_lsp.engine.findings import Finding, Json, Severity
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.model import ArtifactReport
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.run import fingerprinted, seconds_for
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.load import op_not_executed
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE
from gpuemu_lsp.engine.report.json_format import finding_record
from gpuemu_lsp.engine.report.text import TextStyle, render_finding
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.wire import from_json, to_json

_INDENT = "  "
_UNLIMITED = "NO CHECKS CONFIGURED"


def lint(kernel: str | None, ptx: Path | None, arch: str | None, form: str, emit: Path | None) -> int:
    """Inspect kernels; return 0 if all checks passed, 1 for a violation, 2 if something was not checked.

    ``emit`` receives the PTX of one kernel on one architecture; a kernel without limits is then not a failure.
    """
    if ptx is not None and not _has_one(kernel):
        # Before the folder is searched for kernels: it may have thousands of files.
        print("gpuemu: --ptx needs --kernel, whose limits and patterns apply.", file=sys.stderr)
        return EXIT_USAGE
    targets = find_targets([kernel] if kernel is not None else [], CheckOptions(arch=arch))
    if targets is None:
        return EXIT_USAGE
    # An op has no artifact.
    requests = [request for request in targets.requests if request.registered and request.spec.op is None]
    unchecked = [found for request in targets.requests if (found := op_not_executed(request.spec)) is not None]
    config = fingerprinted((*targets.findings, *unchecked), targets.root)
    if ptx is not None and len(requests) != 1:
        print("gpuemu: --ptx needs --kernel, whose limits and patterns apply.", file=sys.stderr)
        return EXIT_USAGE
    single = len(requests) == 1 and (arch is not None or len(requests[0].spec.arch) == 1)
    if emit is not None and (ptx is not None or not single):
        print("gpuemu: --emit-ptx needs one kernel and one architecture: --kernel and --arch.", file=sys.stderr)
        return EXIT_USAGE
    file = str(ptx.absolute()) if ptx is not None else None
    with open_pool(None) as pool:
        reports = [report for request in requests for report in _reports(pool, request, file, emit is not None)]
    if emit is not None:
        written = _write_ptx(emit, reports)
        if written is not None:
            return written
    if form == "json":
        document: dict[str, Json] = {
            "version": 1,
            "kernels": [_record(report, targets.root) for report in reports],
            "findings": [finding_record(finding, targets.root) for finding in config],
        }
        print_out(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        style = OutputOptions().style()
        blocks = [render_finding(finding, targets.root, style) for finding in config]
        blocks += [_text(report, targets.root, style) for report in reports]
        if not reports:
            print("gpuemu: no kernel is registered; lint checks the limits in gpuemu.toml.", file=sys.stderr)
        print_out("\n".join(blocks))
    if emit is not None:
        # The PTX was asked for, which needs no limits.
        reports = [replace(report, result=report.result.replace(_UNLIMITED, "PASS")) for report in reports]
    code = _exit_code(reports, config)
    return EXIT_USAGE if code == EXIT_CLEAN and unchecked and emit is None else code


def _has_one(kernel: str | None) -> bool:
    """Return whether a kernel is named, or the project has one only."""
    if kernel is not None:
        return True
    config = discover(Path.cwd())
    return config is not None and sum(spec.op is None for spec in load(config).kernels) == 1


def _write_ptx(path: Path, reports: Sequence[ArtifactReport]) -> int | None:
    """Write the PTX of the one module; return an exit code where nothing else is to be printed."""
    text = next((report.ptx for report in reports if report.ptx), None)
    if text is None:
        return None  # the report says why
    if str(path) == "-":
        print_out(text.rstrip("\n") + "\n")
        return EXIT_CLEAN
    try:
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        print(f"gpuemu: {path}: {error.strerror or error}", file=sys.stderr)
        return EXIT_USAGE
    return None


def _reports(pool: Pool, request: CheckRequest, ptx: str | None, emit: bool) -> list[ArtifactReport]:
    job = Job("lint", {"request": to_json(request), "ptx": ptx, "emit": emit}, wall_seconds=seconds_for(request))
    gathered = run_job(pool, job)
    reports = [from_json(ArtifactReport, value) for value in gathered.named("artifact")]
    if not gathered.done:
        finding = ending_finding(request, gathered.ending)
        reports.append(ArtifactReport(request.spec.name, request.options.arch or "", "INCOMPLETE", (), (finding,)))
    return reports


def _text(report: ArtifactReport, root: str, style: TextStyle) -> str:
    lines = list(report.lines) or [f"Kernel: {report.kernel}", f"Result: {report.result}"]
    text = "\n".join([lines[0], *(_INDENT + line for line in lines[1:])]) + "\n"
    return "\n".join([text, *(render_finding(finding, root, style) for finding in report.findings)])


def _record(report: ArtifactReport, root: str) -> dict[str, Json]:
    return {
        "kernel": report.kernel,
        "arch": report.arch,
        "result": report.result,
        "resources": {entry: asdict(usage) for entry, usage in report.resources.items()},
        "report": list(report.lines),
        "findings": [finding_record(finding, root) for finding in fingerprinted(report.findings, root)],
    }


def _exit_code(reports: Sequence[ArtifactReport], config: Sequence[Finding]) -> int:
    findings = [finding for report in reports for finding in report.findings]
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if any(finding.rule == "engine/internal-error" for finding in errors):
        return EXIT_INTERNAL
    if errors or any(report.result == "FAIL" for report in reports):
        return EXIT_FINDINGS
    results = {report.result for report in reports}
    incomplete = results & {"INCOMPLETE", "NOT COMPILED"} or any(item.severity is Severity.ERROR for item in config)
    return EXIT_CLEAN if "PASS" in results and not incomplete else EXIT_USAGE
