"""Verdicts as data without messages, for a comparison of two states of the product.

    python -m benchmarks.verdicts run OUTPUT PATH ... [--cases N] [--jobs N] [--threads N] [--unregistered]
    python -m benchmarks.verdicts compare BEFORE AFTER

``run`` checks files and folders and writes one JSON object per kernel and line: its status, and of each finding the
rule, severity, line and dtype. With ``--unregistered`` no gpuemu.toml is read: each file is copied to a folder of its
own. ``compare`` prints the kernels whose verdicts differ, and exits with 1 if there are any. Hints are compared too,
but a difference in hints alone is marked, as the limits of time decide some of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine import host_threads
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.requests.targets import SUFFIXES, TargetError, collect
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

Row = dict[str, Any]


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("output", type=Path)
    run.add_argument("paths", nargs="+", type=Path)
    run.add_argument("--cases", type=int)
    run.add_argument("--jobs", type=int, default=2)
    run.add_argument("--threads", type=int, default=1)
    run.add_argument("--unregistered", action="store_true")
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        sys.exit(1 if _compared(_read(options.before), _read(options.after)) else 0)
    host_threads.choose(options.threads)
    rows = _verdicts(options.paths, CheckOptions(cases=options.cases), options.jobs, options.unregistered)
    options.output.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} kernels")


def _verdicts(paths: Sequence[Path], options: CheckOptions, jobs: int, unregistered: bool) -> list[Row]:
    """Check the kernels of files and folders; return one row for each, in order."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name, open_pool(jobs) as pool:
        for path in paths:
            root = path.absolute()
            for number, group in enumerate(_groups(root, Path(name), unregistered)):
                requests = _requests(group.paths, options)
                if requests:
                    run = run_requests(requests, (), str(group.root), pool)
                    mine = [_row(path, group, report, run.findings) for report in run.kernels]
                    rows += sorted(mine, key=lambda row: (row["file"], row["kernel"]))
                if unregistered:
                    shutil.rmtree(group.root)
                print(f"\r{path.name}: {number + 1}", end="", file=sys.stderr)
    return rows


class _Group:
    """Paths that are checked together, below ``root``."""

    def __init__(self, root: Path, paths: Sequence[Path], name: str = "") -> None:
        self.root, self.paths, self.name = root, paths, name


def _groups(path: Path, scratch: Path, unregistered: bool) -> Iterable[_Group]:
    if not unregistered:
        yield _Group(path if path.is_dir() else path.parent, [path])
        return
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.suffix in {*SUFFIXES, ".py"})
    for number, file in enumerate(files):
        folder = scratch / f"{number}"
        folder.mkdir()
        # The extensions of headers keep the project's own headers reachable.
        for header in file.parent.glob("*.h*"):
            shutil.copy(header, folder)
        shutil.copy(file, folder)
        yield _Group(folder, [folder / file.name], os.path.relpath(file.parent, path))


def _requests(paths: Sequence[Path], options: CheckOptions) -> list[CheckRequest]:
    found: list[CheckRequest] = []
    for path in paths:
        try:
            found += collect([str(path)], options, path if path.is_dir() else path.parent).requests
        except TargetError:
            continue
    return [replace(one, options=replace(one.options, store_root=None)) for one in found]


def _row(path: Path, group: _Group, report: Any, findings: Iterable[Finding]) -> Row:
    source = os.path.relpath(report.source, group.root)
    mine = [
        one for one in findings if one.kernel == report.name or (one.kernel is None and one.place.path == report.source)
    ]
    return {
        "file": os.path.normpath(Path(path.name, group.name, source)),
        "kernel": report.name,
        "status": report.status,
        "compiled": report.compiled,
        "ran": report.cases.run > 0,
        "findings": sorted({_of(one) for one in mine}),
    }


def _of(finding: Finding) -> tuple[str, str, int, str]:
    line = finding.place.range.start.line + 1
    return finding.severity.name.lower(), finding.rule, line, finding.dtype or ""


def _read(path: Path) -> dict[tuple[str, str], Row]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(row["file"], row["kernel"]): row for row in rows}


def _compared(before: dict[tuple[str, str], Row], after: dict[tuple[str, str], Row]) -> int:
    """Print the differences; return the number of kernels that have any but in hints."""
    number = 0
    for key in sorted({*before, *after}):
        one, other = before.get(key), after.get(key)
        if one == other:
            continue
        lines = [f"  {'missing' if other is None else 'new'}"] if one is None or other is None else []
        only_hints = not lines
        if one is not None and other is not None:
            for field in ("status", "compiled", "ran"):
                if one[field] != other[field]:
                    only_hints = False
                    lines.append(f"  {field}: {one[field]} -> {other[field]}")
            earlier, later = (set(map(tuple, row["findings"])) for row in (one, other))
            for sign, found in (("-", earlier - later), ("+", later - earlier)):
                for finding in sorted(found):
                    only_hints = only_hints and finding[0] == Severity.HINT.name.lower()
                    lines.append(f"  {sign} {' '.join(map(str, finding))}")
        number += not only_hints
        print(f"{key[0]} {key[1]}{' (hints only)' if only_hints else ''}", *lines, sep="\n")
    print(f"{number} of {len({*before, *after})} kernels differ, without those that differ in hints only")
    return number


if __name__ == "__main__":
    main()
