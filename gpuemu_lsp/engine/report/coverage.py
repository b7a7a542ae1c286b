"""Which lines and branches of the kernels the cases reached: as text, JSON, lcov's tracefile and Codecov's JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.check.coverage import merged
from gpuemu_lsp.engine.check.model import LineCoverage
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.source_lines import line_text

_TEXT_WIDTH = 60


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """The lines of one file that are code, and the figures."""

    path: str
    lines: tuple[LineCoverage, ...]

    @property
    def reached(self) -> int:
        """How many of the lines were reached."""
        return sum(line.reached for line in self.lines)

    @property
    def ways(self) -> int:
        """How many ways branches could go."""
        return sum(len(line.ways) for line in self.lines)

    @property
    def ways_reached(self) -> int:
        """How many of those were gone."""
        return sum(way.reached for line in self.lines for way in line.ways)


def files_of(run: Run) -> tuple[FileCoverage, ...]:
    """Return the coverage of all kernels of a run by file."""
    found: dict[str, list[LineCoverage]] = {}
    for line in merged(line for kernel in run.kernels for line in kernel.coverage):
        found.setdefault(line.path, []).append(line)
    return tuple(FileCoverage(path, tuple(lines)) for path, lines in sorted(found.items()))


def percent(files: Sequence[FileCoverage]) -> float | None:
    """Return the share of reached lines; None where there is none at all."""
    total = sum(len(file.lines) for file in files)
    return 100.0 * sum(file.reached for file in files) / total if total else None


def unknown(run: Run) -> tuple[str, ...]:
    """Return the kernels nothing is known of: no case of theirs ran."""
    return tuple(kernel.name for kernel in run.kernels if not kernel.coverage)


def render_coverage(run: Run, form: str) -> str:
    """Render it as ``text``, ``json``, ``lcov`` or ``codecov``."""
    return _FORMS[form](run)


def _text(run: Run) -> str:
    files = files_of(run)
    lines = [text for file in files for text in (*_file_text(file, run.root), "")]
    lines += [f"{name}: no case ran, so nothing is known of its lines" for name in unknown(run)]
    share = percent(files)
    if share is None:
        return "\n".join([*lines, "No line was covered."]) + "\n"
    total, reached = sum(len(file.lines) for file in files), sum(file.reached for file in files)
    ways, gone = sum(file.ways for file in files), sum(file.ways_reached for file in files)
    cases = sum(kernel.cases.run for kernel in run.kernels)
    branches = f", {gone} of {_count(ways, 'way')} out of branches" if ways else ""
    lines.append(f"Reached {reached} of {_count(total, 'line')} ({share:.1f} %){branches}, in {_count(cases, 'case')}.")
    return "\n".join(lines) + "\n"


def _file_text(file: FileCoverage, root: str) -> Iterator[str]:
    branches = f", {file.ways_reached} of {_count(file.ways, 'way')} out of branches" if file.ways else ""
    yield f"{relative(file.path, root)}: {file.reached} of {_count(len(file.lines), 'line')}{branches}"
    for line in file.lines:
        code = line_text(file.path, line.line).strip()[:_TEXT_WIDTH]
        if not line.reached:
            yield f"  {line.line + 1}: not reached: {code}"
            continue
        missed = [way.to for way in line.ways if not way.reached]
        if missed:
            where = ", ".join("leaves" if to is None else f"goes to line {to + 1}" for to in missed)
            yield f"  {line.line + 1}: never {where}: {code}"


def _json(run: Run) -> str:
    files = files_of(run)
    share = percent(files)
    document: dict[str, Json] = {
        "version": 1,
        "percent": None if share is None else round(share, 2),
        "files": [_record(file, run.root) for file in files],
        "not_run": list(unknown(run)),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _record(file: FileCoverage, root: str) -> dict[str, Json]:
    return {
        "path": relative(file.path, root),
        "lines": len(file.lines),
        "reached": file.reached,
        "ways": file.ways,
        "ways_reached": file.ways_reached,
        "uncovered": [line.line for line in file.lines if not line.reached],
        "branches": [
            {"line": line.line, "ways": [{"to": way.to, "reached": way.reached} for way in line.ways]}
            for line in file.lines
            if line.ways
        ],
    }


def _lcov(run: Run) -> str:
    """Render a tracefile (geninfo(1), "Files"). Nothing is counted: 1 stands for reached."""
    out: list[str] = []
    for file in files_of(run):
        out += ["TN:gpuemu", f"SF:{file.path}"]
        for line in file.lines:
            for index, way in enumerate(line.ways):
                out.append(f"BRDA:{line.line + 1},0,{index},{int(way.reached) if line.reached else '-'}")
        out += [f"BRF:{file.ways}", f"BRH:{file.ways_reached}"] if file.ways else []
        out += [f"DA:{line.line + 1},{int(line.reached)}" for line in file.lines]
        out += [f"LF:{len(file.lines)}", f"LH:{file.reached}", "end_of_record"]
    return "".join(f"{line}\n" for line in out)


def _codecov(run: Run) -> str:
    """Render Codecov's own JSON: per line 0, 1, or how many of its ways were gone."""
    found: dict[str, Json] = {}
    for file in files_of(run):
        hits: dict[str, Json] = {}
        for line in file.lines:
            gone = sum(way.reached for way in line.ways)
            partly = line.reached and gone < len(line.ways)
            hits[str(line.line + 1)] = f"{gone}/{len(line.ways)}" if partly else int(line.reached)
        found[relative(file.path, run.root)] = hits
    return json.dumps({"coverage": found}, indent=1) + "\n"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


_FORMS: Mapping[str, Callable[[Run], str]] = {"text": _text, "json": _json, "lcov": _lcov, "codecov": _codecov}

FORMATS = tuple(_FORMS)
"""The formats by name."""
