"""Check kernels of public repositories, unmodified, and print tables of names and figures.

    python -m benchmarks.public_files FOLDER [--cases N] [--output FILE]

FOLDER holds one checkout per repository (``llm.c`` and ``SGEMM_CUDA`` for the registered kernels, any others beside
them). Three tables come out: what compiles through the device view with every line and column where it was, what the
kernels registered in ``benchmarks/public/gpuemu.toml`` show against our fp64 references, and what is found where
nothing is registered. None of the repositories' code is copied.
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
from gpuemu_lsp.engine.check.model import CheckOptions, CheckRequest, KernelReport
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.functions import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.targets import SUFFIXES, TargetError, collect
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.source import read, usual_include_dirs
from gpuemu_lsp.engine.workers import Pool

HERE = Path(__file__).parent / "public"


def registered(folder: Path, cases: int, pool: Pool) -> list[str]:
    """Check the registered kernels; returns the lines of their table."""
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


def as_they_are(folder: Path, cases: int, pool: Pool) -> tuple[list[str], list[str], list[str]]:
    """Check every kernel without any configuration; returns the compile table, the reasons and what was found."""
    compiled = ["| repository | files | kernels | compiled, lines unchanged | % |", "|---|---|---|---|---|"]
    reasons = ["| repository | file | kernel | why it is not compiled |", "|---|---|---|---|"]
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


def requests_of(repository: Path, cases: int) -> list[CheckRequest]:
    """Return a request per kernel of every .cu and .cuh file."""
    requests: list[CheckRequest] = []
    for path in sorted(path for path in repository.rglob("*.cu*") if path.suffix in SUFFIXES):
        try:
            targets = collect([str(path)], CheckOptions(cases=cases), path.parent)
        except TargetError:
            continue
        requests += [replace(item, options=replace(item.options, store_root=None)) for item in targets.requests]
    return requests


def _compiled(repository: Path, run: Run, reasons: list[str]) -> tuple[int, int]:
    """Count the instances there are and those that compile. A template nobody launches has no instance to compile."""
    counted = good = 0
    for report in run.kernels:
        why = [finding for finding in run.findings if _about(finding, report)]
        if not report.compiled and any("is a template and nothing" in finding.message for finding in why):
            continue
        if any("an #if excludes it" in finding.message for finding in why):
            continue
        counted += 1
        if report.compiled and _lines_unchanged(report.source):
            good += 1
            continue
        first = next((finding for finding in why if finding.severity is Severity.ERROR), None) or next(iter(why), None)
        message = first.message.split("\n")[0][:100].replace("|", "/") if first else "no finding says"
        reasons.append(f"| {repository.name} | {Path(report.source).name} | {report.name} | {message} |")
    return counted, good


def _about(finding: Finding, report: KernelReport) -> bool:
    """Say whether a finding tells about this kernel: by its name, or as an error of the whole file."""
    places = (finding.place, *(related.place for related in finding.related))
    return finding.kernel in (None, report.name) and any(place.path == report.source for place in places)


def _lines_unchanged(path: str) -> bool:
    """Say whether the device view has every line where it was, each character itself or a blank."""
    text = Path(path).read_text(encoding="utf-8")
    before, after = text.split("\n"), read(path, text, usual_include_dirs(path, text)).device_view.split("\n")
    return len(before) == len(after) and all(map(_unchanged, before, after))


def _unchanged(before: str, after: str) -> bool:
    """A character outside of ASCII becomes as many blanks as it has bytes; a library's include may become CUDA's."""
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
    head = (
        f"## Public kernels, as they are\n\nMade by {command}. Names and figures only; none of their code is here.\n\n"
    )
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
        compiled, reasons, found = as_they_are(options.folder, 4, pool)
    page = _page(
        (
            ("Compiled", "Every kernel that is no template, or that a launch in its file instantiates.", compiled),
            ("Not compiled", "And why.", reasons),
            ("Checked against fp64 references", "Registered in `benchmarks/public/gpuemu.toml`.", numbers),
            ("Nothing registered", "Errors and warnings of the checkers on inferred sizes, all of them.", found),
        )
    )
    put(options.output, "public kernels", page)


if __name__ == "__main__":
    main()
