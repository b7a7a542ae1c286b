"""``gpuemu ci`` and ``gpuemu report``: a check with a baseline comparison or a signature."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp.cli.commands.check import CheckCommand, open_runner, print_executor_fallback, targets_of
from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.cli.progress import ProgressBar
from gpuemu_lsp.cli.report_context import report_context
from gpuemu_lsp.engine.attest import SigningUnavailableError, require_signing
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.jobs.cluster import ClusterError
from gpuemu_lsp.engine.jobs.pools import split_time_budget
from gpuemu_lsp.engine.jobs.requests.targets import Targets
from gpuemu_lsp.engine.jobs.run import fingerprinted, run_requests
from gpuemu_lsp.engine.report.comparison import render_comparison
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.report.model import Run

if TYPE_CHECKING:
    from gpuemu_lsp.engine.store import BaselineRecord

SUFFIX = ".intoto.json"
"""Appended to the name of a report for its attestation."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of ``ci`` and ``report`` that a plain check does not have.

    ``baseline`` is the tag to compare with. ``fail`` makes a regression an error; None stands for the project's
    ``[policies].fail_on_regression``. ``key`` is the private key to sign with, None for the user's own.
    """

    baseline: str | None = None
    fail: bool | None = None
    signed: bool = False
    key: Path | None = None


def report(command: CheckCommand, options: ReportOptions) -> int:
    """Check once and return the exit code; 2 also if the report was to be signed and is not."""
    if options.signed and command.output.file is None:
        print("gpuemu: --signed needs --output: only a file can be signed.", file=sys.stderr)
        return EXIT_USAGE
    if options.signed:
        try:
            require_signing()
        except SigningUnavailableError as error:
            print(f"gpuemu: {error}", file=sys.stderr)
            return EXIT_USAGE
    baseline: Sequence[BaselineRecord] | None = None
    if options.baseline is not None:
        from gpuemu_lsp.cli.commands.baseline import read_baseline
        from gpuemu_lsp.engine.jobs.measurement import as_measured

        baseline = read_baseline(options.baseline)
        if baseline is None:
            return EXIT_USAGE
        command = replace(command, options=as_measured(command.options, baseline))
    targets = targets_of(command)
    if targets is None:
        return EXIT_USAGE
    before = _digests(targets) if options.signed else {}
    records: list[BaselineRecord] = []
    on_record = records.append if baseline is not None else None
    try:
        with open_runner(command) as runner, ProgressBar(len(targets.requests), sys.stderr) as progress:
            requests = split_time_budget(targets.requests, command.jobs)
            run = run_requests(requests, targets.findings, targets.root, runner, progress.update, on_record)
    except ClusterError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE
    run = replace(run, context=report_context(run, targets))
    if baseline is not None and options.baseline is not None:
        run = _compared(run, targets, options, baseline, records)
    print_executor_fallback(run)
    code = command.output.write(run)
    comparison = run.context.comparison
    if comparison is not None and command.output.format == "text" and command.output.file is None:
        print_out("\n" + render_comparison(comparison, run.root, command.output.style()))
    return max(code, _sign(command, options, run, targets, before)) if options.signed else code


def _compared(
    run: Run,
    targets: Targets,
    options: ReportOptions,
    baseline: Sequence[BaselineRecord],
    records: Sequence[BaselineRecord],
) -> Run:
    """Add the comparison with the baseline, and a finding for each regression."""
    from gpuemu_lsp.engine.baseline.compare import compare
    from gpuemu_lsp.engine.baseline.findings import regressions

    assert options.baseline is not None
    specs = {item.spec.name: item.spec for item in targets.requests if item.registered}
    policies = targets.projects[0].policies
    fail = policies.fail_on_regression if options.fail is None else options.fail
    measured = [record for record in records if record.kernel in specs]
    comparison = compare(options.baseline, baseline, measured, policies.warn_threshold)
    findings = regressions(comparison, specs, Severity.ERROR if fail else Severity.WARNING)
    return replace(
        run,
        findings=(*run.findings, *fingerprinted(findings, run.root)),
        context=replace(run.context, comparison=comparison),
    )


def _digests(targets: Targets) -> dict[str, str]:
    from gpuemu_lsp.engine.attest.statement import digests

    return digests(targets.watched)


def _sign(command: CheckCommand, options: ReportOptions, run: Run, targets: Targets, before: dict[str, str]) -> int:
    """Write the attestation next to the report; return 0 if it was written, else 2."""
    from gpuemu_lsp.engine.attest.envelope import key_id, seal
    from gpuemu_lsp.engine.attest.keys import KeyFileError, public_path, signing_key
    from gpuemu_lsp.engine.attest.statement import Evidence, NotSignableError, statement

    file = command.output.file
    assert file is not None
    try:
        if _digests(targets) != before:
            raise NotSignableError("files changed during the check")
        registered = [spec.name for project in targets.projects for spec in project.kernels]
        broken = [name for project in targets.projects for name in project.broken]
        configured = targets.projects[0].validation.seed if targets.projects else None
        seed = command.options.seed if command.options.seed_given or configured is None else configured
        evidence = Evidence(run, command.options, str(seed), before, registered, broken)
        signed_content = statement(evidence, file.name, file.read_bytes())
        key, key_file, new = signing_key(options.key)
        sealed = file.with_name(file.name + SUFFIX)
        sealed.write_text(seal(signed_content, key), encoding="utf-8")
    except NotSignableError as error:
        print(f"gpuemu: the report was not signed: {error}.", file=sys.stderr)
        return EXIT_USAGE
    except (KeyFileError, OSError) as error:
        print(f"gpuemu: the report was not signed: {error}", file=sys.stderr)
        return EXIT_USAGE
    if new:
        print(f"gpuemu: created the key {key_file}; others verify with {public_path(key_file)}", file=sys.stderr)
    print(f"gpuemu: signed with the key {key_id(key.public_key())[:16]}: {sealed}", file=sys.stderr)
    return EXIT_CLEAN
