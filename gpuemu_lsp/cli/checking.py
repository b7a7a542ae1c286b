"""``--check`` and ``--watch``: targets in, a formatted run out."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from gpuemu_lsp.cli.progress import Progress
from gpuemu_lsp.engine.campaign.jobs import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.campaign.run import run_requests
from gpuemu_lsp.engine.campaign.targets import TargetError, Targets, collect
from gpuemu_lsp.engine.check.model import CheckOptions
from gpuemu_lsp.engine.report.github import render_github
from gpuemu_lsp.engine.report.json_format import render_json, render_jsonl
from gpuemu_lsp.engine.report.lines import forget
from gpuemu_lsp.engine.report.model import EXIT_INTERNAL, EXIT_USAGE, Run
from gpuemu_lsp.engine.report.text import Style, render_text
from gpuemu_lsp.engine.workers import Limits, Pool

_FORMATS: dict[str, Callable[[Run], str]] = {"json": render_json, "jsonl": render_jsonl, "github": render_github}


def check(options: argparse.Namespace) -> int:
    """Run once; return the exit code."""
    with open_pool(options.jobs, options.executor) as pool:
        return _once(options, pool)


def watch(options: argparse.Namespace) -> int:
    """Run, then again after every change of a file that matters, until interrupted."""
    import watchfiles

    with open_pool(options.jobs, options.executor) as pool:
        code = _once(options, pool)
        while True:
            folders = _folders(options)
            print("Watching for changes. Press Ctrl-C to stop.", file=sys.stderr, flush=True)
            for changes in watchfiles.watch(*folders, watch_filter=_Relevant(), raise_interrupt=True):
                names = ", ".join(sorted({Path(path).name for _, path in changes})[:4])
                print(f"Changed: {names}", file=sys.stderr, flush=True)
                break
            else:
                return code
            forget()
            code = _once(options, pool)


def open_pool(jobs: int | None, executor: str = "auto") -> Pool:
    """Return a pool, one worker per core by default. A CUDA context cannot live under a memory limit."""
    limits = Limits(memory_bytes=None) if executor == "gpu" else Limits()
    return Pool(FUNCTIONS, size=jobs or os.cpu_count() or 1, limits=limits, preload=PRELOAD)


def check_options(options: argparse.Namespace) -> CheckOptions:
    """Translate the command line."""
    default = CheckOptions()
    return CheckOptions(
        cases=options.cases or default.cases,
        seed=default.seed if options.seed is None else options.seed,
        seed_given=options.seed is not None,
        arch=options.arch,
        executor=options.executor,
    )


def _once(options: argparse.Namespace, pool: Pool) -> int:
    try:
        pool.start()
        targets = collect(options.check or [], check_options(options), Path.cwd())
    except TargetError as error:
        print(f"gpuemu-lsp: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        run = _run(targets, pool)
    except Exception:  # the edge: our own bug must not look like a verdict
        traceback.print_exc()
        return EXIT_INTERNAL
    return _write(run, options)


def _run(targets: Targets, pool: Pool) -> Run:
    with Progress(len(targets.requests), sys.stderr) as progress:
        return run_requests(targets.requests, targets.findings, targets.root, pool, progress.see)


def _write(run: Run, options: argparse.Namespace) -> int:
    if options.format == "text":
        stream: TextIO | None = None if options.output else sys.stdout
        text = render_text(run, Style(colour=_colour(options.color, stream), hints=options.hints))
    else:
        text = _FORMATS[options.format](run)
    if options.output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return run.exit_code
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"gpuemu-lsp: --output {options.output}: {error.strerror or error}", file=sys.stderr)
        return EXIT_USAGE
    return run.exit_code


def _colour(wish: str, stream: TextIO | None) -> bool:
    if wish != "auto":
        return wish == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("GPUEMU_NO_COLOR"):
        return False
    return stream is not None and stream.isatty()


def _folders(options: argparse.Namespace) -> list[Path]:
    """Watch the folders of the files that matter, not the whole tree below the working directory."""
    targets = collect(options.check or [], check_options(options), Path.cwd())
    folders = {Path(path).parent for path in targets.watched} or {Path.cwd()}
    return sorted(folder for folder in folders if folder.is_dir())


class _Relevant:
    """Sources, headers, references and the config; never our own outputs."""

    _SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".py", "gpuemu.toml")

    def __call__(self, change: object, path: str) -> bool:
        return path.endswith(self._SUFFIXES) and "/.gpuemu/" not in path
