"""``gpuemu doctor PATH``: how a file is compiled, and what would let more kernels of a project run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from gpuemu_lsp.cli.commands.check import find_targets
from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.cli.progress import ProgressBar
from gpuemu_lsp.engine.build.context import build_context
from gpuemu_lsp.engine.build.model import BuildContext, SettingKind
from gpuemu_lsp.engine.check.not_executed import ReasonGroup, reason_groups
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.text import count
from gpuemu_lsp.engine.subjects.request import CheckOptions

_CASES = 2
_MOST_NAMES = 8


def doctor_target(path: Path, form: str) -> int:
    """Check the kernels of a file or folder on a few cases, and print why others did not run; 0 if all ran, else 2."""
    targets = find_targets([str(path)], CheckOptions(cases=_CASES))
    if targets is None:
        return EXIT_USAGE
    requests = [replace(item, options=replace(item.options, store_root=None)) for item in targets.requests]
    with open_pool(None) as pool, ProgressBar(len(requests), sys.stderr) as progress:
        run = run_requests(requests, targets.findings, targets.root, pool, progress.update)
    groups = reason_groups(run.kernels, run.findings)
    context = _context(path.absolute()) if path.is_file() else None
    if form == "json":
        print_out(json.dumps(_document(run, groups, context), indent=2, ensure_ascii=False) + "\n")
    else:
        lines = [*(_context_lines(context) if context is not None else ()), *_summary(run, groups, path.is_file())]
        print_out("\n".join(lines) + "\n")
    return EXIT_CLEAN if run.kernels and not groups else EXIT_USAGE


def _context(path: Path) -> BuildContext:
    config = discover(path.parent)
    text = file_text(path, errors="replace")
    return build_context(path.as_posix(), text, load(config) if config is not None else None)


def _document(run: Run, groups: Sequence[ReasonGroup], context: BuildContext | None) -> dict[str, Json]:
    left = sum(len(group.kernels) for group in groups)
    document: dict[str, Json] = {
        "version": 1,
        "kernels": len(run.kernels),
        "ran": len(run.kernels) - left,
        "reasons": [group.record() for group in groups],
    }
    return document if context is None else {**document, "build": context.record()}


def _context_lines(context: BuildContext) -> Iterator[str]:
    """Yield the settings of a file by their origin, and the headers that were not found."""
    name = Path(context.path).name
    used = [setting for setting in context.settings if setting.kind is not SettingKind.IGNORED]
    root = str(Path(context.path).parent)
    if not used:
        yield f"{name} is compiled without settings: no build file of the project says anything about it."
    for origin, settings in groupby(used, key=lambda setting: setting.origin):
        yield f"From {relative(str(origin), root)}:"
        yield from (f"  {setting.kind.value:<18} {relative(setting.value, root)}" for setting in settings)
    ignored = [setting.value for setting in context.of(SettingKind.IGNORED)]
    if ignored:
        yield f"Ignored, since NVRTC has no such options: {' '.join(dict.fromkeys(ignored))}"
    for item in context.missing:
        yield f"Header {item.target} was not found: {item.remedy}"
    yield ""


def _summary(run: Run, groups: Sequence[ReasonGroup], each: bool) -> Iterator[str]:
    """Yield the number of kernels that ran, and the reasons for the others, the most frequent first.

    ``each`` gives every kernel its own reason.
    """
    files = len({kernel.source for kernel in run.kernels})
    left = sum(len(group.kernels) for group in groups)
    yield (
        f"{count(len(run.kernels), 'kernel')} in {count(files, 'file')}: "
        f"{len(run.kernels) - left} ran, {left} did not run."
    )
    for group in groups:
        yield ""
        yield f"{len(group.kernels):>4}  {group.title}"
        yield f"      -> {group.remedy}"
        if each:
            yield from (f"      {kernel.name}: {kernel.reason}" for kernel in group.kernels)
            continue
        ordered = sorted(group.kernels, key=lambda kernel: kernel.source)
        for source, kernels in groupby(ordered, key=lambda kernel: kernel.source):
            names = [kernel.name for kernel in kernels]
            more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            yield f"      {relative(source, run.root)}: {', '.join(names[:_MOST_NAMES])}{more}"
