"""Line and branch coverage of kernels: as text, JSON, lcov's tracefile and Codecov's JSON.

A branch outcome is one successor of a branch; JSON calls it a ``way``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.check.coverage import merged
from gpuemu_lsp.engine.check.model import LineCoverage
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.source_lines import line_text
from gpuemu_lsp.engine.report.text import count

_TEXT_WIDTH = 60


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """The executable lines of one file."""

    path: str
    lines: tuple[LineCoverage, ...]

    @property
    def reached(self) -> int:
        """Number of lines reached."""
        return sum(line.reached for line in self.lines)

    @property
    def outcomes(self) -> int:
        """Number of branch outcomes."""
        return sum(len(line.ways) for line in self.lines)

    @property
    def outcomes_reached(self) -> int:
        """Number of branch outcomes reached."""
        return sum(way.reached for line in self.lines for way in line.ways)


def files_of(run: Run) -> tuple[FileCoverage, ...]:
    """Return the coverage of all kernels of a run, by file."""
    by_file: dict[str, list[LineCoverage]] = {}
    for line in merged(line for kernel in run.kernels for line in kernel.coverage):
        by_file.setdefault(line.path, []).append(line)
    return tuple(FileCoverage(path, tuple(lines)) for path, lines in sorted(by_file.items()))


def percent(files: Sequence[FileCoverage]) -> float | None:
    """Return the percentage of lines reached; None if there are no lines."""
    total = sum(len(file.lines) for file in files)
    return 100.0 * sum(file.reached for file in files) / total if total else None


def unknown(run: Run) -> tuple[str, ...]:
    """Return the names of the kernels without coverage, since no case of theirs ran."""
    return tuple(kernel.name for kernel in run.kernels if not kernel.coverage)


def render_coverage(run: Run, form: str) -> str:
    """Render the coverage as ``text``, ``json``, ``lcov`` or ``codecov``."""
    return _FORMS[form](run)


def _text(run: Run) -> str:
    files = files_of(run)
    lines = [text for file in files for text in (*_file_text(file, run.root), "")]
    lines += [f"{name}: no case ran, so its coverage is unknown" for name in unknown(run)]
    share = percent(files)
    if share is None:
        return "\n".join([*lines, "No line was covered."]) + "\n"
    total, reached = sum(len(file.lines) for file in files), sum(file.reached for file in files)
    outcomes, taken = sum(file.outcomes for file in files), sum(file.outcomes_reached for file in files)
    cases = sum(kernel.cases.run for kernel in run.kernels)
    branches = f", {taken} of {count(outcomes, 'branch outcome')}" if outcomes else ""
    lines.append(f"Reached {reached} of {count(total, 'line')} ({share:.1f} %){branches}, in {count(cases, 'case')}.")
    return "\n".join(lines) + "\n"


def _file_text(file: FileCoverage, root: str) -> Iterator[str]:
    branches = f", {file.outcomes_reached} of {count(file.outcomes, 'branch outcome')}" if file.outcomes else ""
    yield f"{relative(file.path, root)}: {file.reached} of {count(len(file.lines), 'line')}{branches}"
    for line in file.lines:
        code = line_text(file.path, line.line).strip()[:_TEXT_WIDTH]
        if not line.reached:
            yield f"  {line.line + 1}: not reached: {code}"
            continue
        missed = [way.to for way in line.ways if not way.reached]
        if missed:
            where = ", ".join("exits" if to is None else f"goes to line {to + 1}" for to in missed)
            yield f"  {line.line + 1}: never {where}: {code}"


def _json(run: Run) -> str:
    return json.dumps(coverage_record(run), indent=2, ensure_ascii=False) + "\n"


def coverage_record(run: Run) -> dict[str, Json]:
    """Return the coverage as JSON; lines count from 0."""
    files = files_of(run)
    share = percent(files)
    return {
        "version": 1,
        "percent": None if share is None else round(share, 2),
        "files": [_record(file, run.root) for file in files],
        "not_run": list(unknown(run)),
    }


def _record(file: FileCoverage, root: str) -> dict[str, Json]:
    return {
        "path": relative(file.path, root),
        "lines": len(file.lines),
        "reached": file.reached,
        "ways": file.outcomes,
        "ways_reached": file.outcomes_reached,
        "uncovered": [line.line for line in file.lines if not line.reached],
        "branches": [
            {"line": line.line, "ways": [{"to": way.to, "reached": way.reached} for way in line.ways]}
            for line in file.lines
            if line.ways
        ],
    }


def _lcov(run: Run) -> str:
    """Render a tracefile (geninfo(1), "Files"). Executions are not counted: 1 stands for reached."""
    out: list[str] = []
    for file in files_of(run):
        out += ["TN:gpuemu", f"SF:{file.path}"]
        for line in file.lines:
            for index, way in enumerate(line.ways):
                out.append(f"BRDA:{line.line + 1},0,{index},{int(way.reached) if line.reached else '-'}")
        out += [f"BRF:{file.outcomes}", f"BRH:{file.outcomes_reached}"] if file.outcomes else []
        out += [f"DA:{line.line + 1},{int(line.reached)}" for line in file.lines]
        out += [f"LF:{len(file.lines)}", f"LH:{file.reached}", "end_of_record"]
    return "".join(f"{line}\n" for line in out)


def _codecov(run: Run) -> str:
    """Render Codecov's JSON: for each line 0, 1, or the fraction of its branch outcomes that were taken."""
    by_line: dict[str, Json] = {}
    for file in files_of(run):
        hits: dict[str, Json] = {}
        for line in file.lines:
            taken = sum(way.reached for way in line.ways)
            partly = line.reached and taken < len(line.ways)
            hits[str(line.line + 1)] = f"{taken}/{len(line.ways)}" if partly else int(line.reached)
        by_line[relative(file.path, run.root)] = hits
    return json.dumps({"coverage": by_line}, indent=1) + "\n"


_FORMS: Mapping[str, Callable[[Run], str]] = {"text": _text, "json": _json, "lcov": _lcov, "codecov": _codecov}

FORMATS = tuple(_FORMS)
"""The formats by name."""
