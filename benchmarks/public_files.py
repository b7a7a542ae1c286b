"""Checks of unmodified kernels of public repositories, as tables of names and figures.

    python -m benchmarks.public_files FOLDER [--cases N] [--output FILE]

FOLDER contains a checkout of each repository: ``llm.c`` and ``SGEMM_CUDA`` for the registered kernels, and any
others. The tables are: kernels that compile through the device view with all lines and columns unchanged; results of
the kernels registered in ``benchmarks/public/gpuemu.toml`` against fp64 references; findings in unregistered kernels.
None of the repositories' code is copied.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.page import put
from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import SUFFIXES, TargetError, collect
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.source import read, usual_include_dirs
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.pool import Pool

HERE = Path(__file__).parent / "public"


def registered(folder: Path, cases: int, pool: Pool) -> list[str]:
    """Check the registered kernels; return the lines of their table."""
    text = re.sub(r'source = "', f'source = "{folder.absolute()}/', (HERE / "gpuemu.toml").read_text())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "gpuemu.toml").write_text(text)
        (place / "references.py").write_text((HERE / "references.py").read_text())
        targets = collect([], CheckOptions(cases=cases), place)
        wanted = [request for request in targets.requests if request.registered and Path(request.spec.source).exists()]
        run = run_requests(wanted, targets.findings, targets.root, pool)
    lines = ["| kernel | verdict | cases | worst error / allowed | registers | findings |", "|---|---|---|---|---|---|"]
    for report in run.kernels:
        mine = [finding for finding in run.findings if finding.kernel == report.name and _counts(finding)]
        found = "; ".join(f"{finding.rule} line {finding.place.range.start.line + 1}" for finding in mine)
        worst = "" if report.worst is None else f"{report.worst:.2f}"
        registers = "/".join(str(usage.registers) for usage in report.resources.values())
        counted = f"{report.cases.passed}/{report.cases.run}"
        lines.append(f"| {report.name} | {report.status} | {counted} | {worst} | {registers} | {found} |")
    return lines


def unregistered(folder: Path, cases: int, pool: Pool) -> tuple[list[str], list[str], list[str]]:
    """Check every kernel without a configuration; return the tables of compilations, reasons and findings."""
    compiled = ["| repository | files | kernels | compiled, lines unchanged | % |", "|---|---|---|---|---|"]
    reasons = ["| repository | file | kernel | reason |", "|---|---|---|---|"]
    found = ["| repository | kernel | finding |", "|---|---|---|"]
    for repository in sorted(path for path in folder.iterdir() if path.is_dir()):
        requests = requests_of(repository, cases)
        if not requests:
            continue
        run = run_requests(requests, (), str(repository), pool)
        counted, good = _compiled(repository, run, reasons)
        files = len({request.spec.source for request in requests})
        share = f"{100 * good / counted:.0f}" if counted else ""
        compiled.append(f"| {repository.name} | {files} | {counted} | {good} | {share} |")
        statuses = Counter(report.status for report in run.kernels)
        found.append(f"| {repository.name} | {_listed(statuses)} | |")
        for finding in run.findings:
            if _counts(finding) and not finding.rule.startswith("compile/"):
                line = f"{Path(finding.place.path).name} line {finding.place.range.start.line + 1}"
                found.append(f"| | {finding.kernel} | {finding.rule}, {line} |")
    return compiled, reasons, found


def requests_of(repository: Path, cases: int | None) -> list[CheckRequest]:
    """Return a request for each kernel of every .cu and .cuh file."""
    requests: list[CheckRequest] = []
    for path in sorted(path for path in repository.rglob("*.cu*") if path.suffix in SUFFIXES):
        try:
            targets = collect([str(path)], CheckOptions(cases=cases), path.parent)
        except TargetError:
            continue
        requests += [replace(item, options=replace(item.options, store_root=None)) for item in targets.requests]
    return requests


def _compiled(repository: Path, run: Run, reasons: list[str]) -> tuple[int, int]:
    """Return the number of kernel instances and of those that compile. Templates without a launch have no instance."""
    counted = good = 0
    for report in run.kernels:
        why = [finding for finding in run.findings if _about(finding, report)]
        if not report.compiled and any(finding.cause is Cause.UNKNOWN_INSTANCE for finding in why):
            continue
        if any(finding.cause is Cause.EXCLUDED for finding in why):
            continue
        counted += 1
        if report.compiled and _lines_unchanged(report.source):
            good += 1
            continue
        first = next((finding for finding in why if finding.severity is Severity.ERROR), None) or next(iter(why), None)
        message = first.message.split("\n")[0][:100].replace("|", "/") if first else "no finding"
        reasons.append(f"| {repository.name} | {Path(report.source).name} | {report.name} | {message} |")
    return counted, good


def _about(finding: Finding, report: KernelReport) -> bool:
    """Return whether a finding is about this kernel or about its whole file."""
    places = (finding.place, *(related.place for related in finding.related))
    return finding.kernel in (None, report.name) and any(place.path == report.source for place in places)


def _lines_unchanged(path: str) -> bool:
    """Return whether the device view keeps every line, and every character or a blank in its place."""
    text = Path(path).read_text(encoding="utf-8")
    before, after = text.split("\n"), read(path, text, usual_include_dirs(path, text)).device_view.split("\n")
    return len(before) == len(after) and all(map(_unchanged, before, after))


def _unchanged(before: str, after: str) -> bool:
    """Return whether a line is unchanged, in bytes; an include of a library may be replaced by one of CUDA's."""
    if after.startswith("#include<") and before.lstrip().startswith("#"):
        return True
    kept, shown = before.encode(), after.encode()
    return len(kept) == len(shown) and all(new in (old, ord(" ")) for old, new in zip(kept, shown, strict=True))


def _counts(finding: Finding) -> bool:
    return finding.severity in (Severity.ERROR, Severity.WARNING)


def _listed(statuses: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))


def _page(parts: Sequence[tuple[str, str, list[str]]]) -> str:
    sections = [f"### {title}\n\n{text}\n\n" + "\n".join(lines) for title, text, lines in parts]
    command = "`python -m benchmarks.public_files FOLDER`"
    head = f"## Public kernels, unmodified\n\nGenerated by {command}. It contains none of their code.\n\n"
    return head + "\n\n".join(sections) + "\n"


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=16)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with Pool(FUNCTIONS, size=2, preload=PRELOAD) as pool:
        numbers = registered(options.folder, options.cases, pool)
        compiled, reasons, found = unregistered(options.folder, 4, pool)
    page = _page(
        (
            ("Compiled", "Every kernel that is not a template, or that a launch in its file instantiates.", compiled),
            ("Not compiled", "With the first error.", reasons),
            ("Checked against fp64 references", "Registered in `benchmarks/public/gpuemu.toml`.", numbers),
            ("Unregistered", "All errors and warnings of the checkers, with inferred sizes.", found),
        )
    )
    put(options.output, "public kernels", page)


if __name__ == "__main__":
    main()
