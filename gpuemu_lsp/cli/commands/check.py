"""Checks of the commands: resolve targets, run, and write the result, once or after every change."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from gpuemu_lsp.cli import report_context
from gpuemu_lsp.cli.output import OutputOptions
from gpuemu_lsp.cli.progress import ProgressBar
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.cluster import LOCAL, Cluster, ClusterError
from gpuemu_lsp.engine.jobs.notebook_results import in_notebooks
from gpuemu_lsp.engine.jobs.pools import open_pool, split_time_budget
from gpuemu_lsp.engine.jobs.requests.targets import TargetError, Targets, collect
from gpuemu_lsp.engine.jobs.run import Runner, run_requests
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.report.exit_codes import EXIT_USAGE
from gpuemu_lsp.engine.report.expected import verify
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.report.text import TextStyle, render_finding
from gpuemu_lsp.engine.source.headers.kernel_files import HEADERS
from gpuemu_lsp.engine.subjects.languages import SUFFIXES
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.pool import Pool

_WATCH_TIMEOUT_MS = 200


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """A check as the command line requests it.

    ``targets`` are paths or kernel names, none for the current folder. ``dask`` is the address of a scheduler,
    ``local`` to start one, None for a pool on this machine. ``shard`` (I, N) selects every N-th kernel from the I-th
    on. ``expect`` compares the errors with those that comments announce.
    """

    targets: Sequence[str]
    options: CheckOptions
    output: OutputOptions = OutputOptions()
    jobs: int | None = None
    dask: str | None = None
    shard: tuple[int, int] | None = None
    expect: bool = False


class SharedPool(Runner, Protocol):
    """A pool that outlives the command."""

    def resize(self, workers: int) -> None:
        """Allow up to this number of workers."""


def check(command: CheckCommand, pool: SharedPool | None = None) -> int:
    """Check once, in a pool of its own or in that of a daemon, and return the exit code."""
    if pool is not None and command.options.executor != "gpu":  # its workers have no memory limit
        pool.resize(command.jobs or os.cpu_count() or 1)
        return _once(command, pool)
    try:
        with open_runner(command) as runner:
            return _once(command, runner)
    except ClusterError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE


def open_runner(command: CheckCommand) -> Pool | Cluster:
    """Return the pool or cluster that runs the command's jobs.

    Raises
    ------
    ClusterError
        If a cluster is requested and not available.
    """
    if command.dask is None:
        return open_pool(command.jobs, command.options.executor)
    return Cluster(command.dask, command.jobs or os.cpu_count() or 1)


def watch(command: CheckCommand) -> int:
    """Check, and again after every change of a relevant file, until interrupted."""
    with open_pool(command.jobs, command.options.executor) as pool:
        folders: list[Path] = []
        while True:
            wanted = _folders(command)
            if wanted != folders:
                folders, changes = wanted, _changes(wanted)
                next(changes)  # start watching before the run, so that no change during it is missed
            _once(command, pool)
            print("Watching for changes. Press Ctrl-C to stop.", file=sys.stderr, flush=True)
            names = next(found for found in changes if found)
            print(f"Changed: {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}", file=sys.stderr, flush=True)


def find_targets(arguments: Sequence[str], options: CheckOptions) -> Targets | None:
    """Resolve targets; print the reason and return None for an unknown argument."""
    try:
        targets = collect(arguments, options, Path.cwd())
    except TargetError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return None
    if not targets.requests and not targets.findings:
        where = "here" if not arguments else f"in {', '.join(arguments)}"
        print(
            f"gpuemu: no .cu file, no .py file with kernels and no registered kernel {where}; "
            "gpuemu init creates a first one.",
            file=sys.stderr,
        )
    return targets


def targets_of(command: CheckCommand) -> Targets | None:
    """Resolve a command's targets, and select its shard.

    Jobs on other machines do not store failing cases: SQLite files must not be shared over a network.
    """
    targets = find_targets(command.targets, command.options)
    if targets is not None and command.shard is not None:
        part, count = command.shard
        share = targets.requests[part - 1 :: count]
        if targets.requests and not share:
            print(
                f"gpuemu: shard {part}/{count} is empty: there are only {len(targets.requests)} kernels.",
                file=sys.stderr,
            )
        targets = replace(targets, requests=share)
    if targets is None or command.dask in (None, LOCAL):
        return targets
    requests = (replace(item, options=replace(item.options, store_root=None)) for item in targets.requests)
    return replace(targets, requests=tuple(requests))


def print_config_errors(findings: Sequence[Finding], root: str) -> None:
    """Print the errors in the configuration to standard error."""
    for finding in findings:
        if finding.rule.startswith("config/") and finding.severity is Severity.ERROR:
            print(render_finding(finding, root, TextStyle()), file=sys.stderr)


def print_executor_fallback(run: Run) -> None:
    """Print to standard error that the requested GPU was not used: the finding is a hint and may not be shown."""
    fallback = next((finding for finding in run.findings if finding.rule == "engine/no-gpu"), None)
    if fallback is not None:
        print(f"gpuemu: {fallback.message}", file=sys.stderr)


def _once(command: CheckCommand, pool: Runner) -> int:
    targets = targets_of(command)
    if targets is None:
        return EXIT_USAGE
    requests = split_time_budget(targets.requests, command.jobs)
    with ProgressBar(len(requests), sys.stderr) as progress:
        run = run_requests(requests, targets.findings, targets.root, pool, progress.update)
    run = in_notebooks(run, targets.notebooks)
    if command.output.format in report_context.FORMATS:
        run = replace(run, context=report_context.report_context(run, targets))
    print_executor_fallback(run)
    code = command.output.write(run)
    return verified(run, code) if command.expect else code


def verified(run: Run, code: int) -> int:
    """Compare a run that was written out with the comments of its sources; return the exit code."""
    if code == EXIT_USAGE:
        return code
    texts = {kernel.source: file_text(kernel.source, errors="replace") for kernel in run.kernels}
    verification = verify(run, texts)
    print(verification.text(), file=sys.stderr)
    return verification.exit_code(run)


def _folders(command: CheckCommand) -> list[Path]:
    """Return the folders of the relevant files, so that not the whole tree is watched."""
    targets = find_targets(command.targets, command.options)
    files = targets.watched if targets is not None else ()
    folders = [folder for folder in {Path(path).parent for path in files} if folder.is_dir()]
    return sorted(folders) or [Path.cwd()]


def _changes(folders: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the names of changed files, and an empty list after every ``_WATCH_TIMEOUT_MS`` without a change."""
    import watchfiles

    for changes in watchfiles.watch(
        *folders,
        watch_filter=_SourceFilter(),
        recursive=False,
        rust_timeout=_WATCH_TIMEOUT_MS,
        yield_on_timeout=True,
        raise_interrupt=True,
    ):
        yield sorted({Path(path).name for _, path in changes})


class _SourceFilter:
    """Selects sources, headers, references and gpuemu.toml, but not the store."""

    _SUFFIXES = (*SUFFIXES, *HEADERS, ".py", ".ipynb", "gpuemu.toml")

    def __call__(self, change: object, path: str) -> bool:
        return path.endswith(self._SUFFIXES) and "/.gpuemu/" not in path
