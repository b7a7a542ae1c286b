"""``gpuemu calibrate``: measured tolerances, written to gpuemu.toml with their evidence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.cli.commands.check import find_targets, print_config_errors
from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.jobs.calibration import Calibration, CalibrationOptions, ToleranceEnvelope, evidence
from gpuemu_lsp.engine.jobs.calibration import calibrate as measure
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.project.edits import applied, kernel_index, remark, set_in_kernel
from gpuemu_lsp.engine.project.load import load
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE
from gpuemu_lsp.engine.report.text import count
from gpuemu_lsp.engine.subjects.request import CheckOptions

_MARK = "# gpuemu calibrate:"


def calibrate(
    names: Sequence[str], options: CheckOptions, jobs: int | None, how: CalibrationOptions, *, write: bool
) -> int:
    """Calibrate the registered kernels, all or those named; write the tolerances if ``write``."""
    targets = find_targets(names, options)
    if targets is None:
        return EXIT_USAGE
    project = next(iter(targets.projects), None)
    requests = [item for item in targets.requests if item.registered]
    print_config_errors(targets.findings, targets.root)
    if project is None or project.config is None or not requests:
        print("gpuemu: no kernel is registered, so there is no tolerance to set.", file=sys.stderr)
        return EXIT_USAGE
    with open_pool(jobs, options.executor) as pool:
        calibration = measure(requests, targets.root, how, pool)
    seeds = {item.spec.name: _seed(options, item.validation.seed) for item in requests}
    config = Path(project.config)
    accepted, exceeded = [], False
    for envelope in calibration.envelopes:
        origin = evidence(envelope, how, seeds[envelope.kernel])
        line = f"{envelope.kernel}: {envelope.dtype} = {_value(envelope)}  ({origin})"
        if envelope.exceeded:
            exceeded = True
            line += "\n  not written: try a higher --percentile or --margin, or leave it out to derive it for each case"
        else:
            accepted.append((envelope, origin))
        print_out(line + "\n")
    for name, why in calibration.skipped.items():
        print_out(f"{name}: no tolerance: {why}\n")
    if any(run.exit_code == EXIT_INTERNAL for run in calibration.runs):
        return EXIT_INTERNAL
    if write and accepted and not _write(config, accepted):
        return EXIT_USAGE
    return _exit_code(calibration, exceeded)


def _exit_code(calibration: Calibration, exceeded: bool) -> int:
    statuses = {report.status for report in calibration.runs[0].kernels}
    if exceeded or "failed" in statuses:
        return EXIT_FINDINGS
    return EXIT_CLEAN if "passed" in statuses and not statuses & {"error", "not-executed"} else EXIT_USAGE


def _write(config: Path, accepted: Sequence[tuple[ToleranceEnvelope, str]]) -> bool:
    """Change only the values in the file; print the reason and return False if that is not possible."""
    try:
        before = config.read_bytes().decode("utf-8")
        # Columns of the configuration are counted after a byte order mark.
        text = before.removeprefix("\ufeff")
        mark = before[: len(before) - len(text)]
        for envelope, origin in accepted:
            changed = _changed(text, envelope, origin)
            if changed is None:
                print(
                    f"gpuemu: {config.name}: the tolerances of '{envelope.kernel}' are in a form that cannot be "
                    "edited; nothing was written.",
                    file=sys.stderr,
                )
                return False
            text = changed
        if config.read_bytes().decode("utf-8") != before:
            print(f"gpuemu: {config.name} changed during calibration; nothing was written.", file=sys.stderr)
            return False
        temporary = config.with_name(f".{config.name}.new")
        temporary.write_bytes((mark + text).encode("utf-8"))
        broken = [item for item in load(temporary).findings if item.severity is Severity.ERROR]
        if broken and not load(config).findings:
            temporary.unlink()
            print(f"gpuemu: {config.name}: {broken[0].message} Nothing was written.", file=sys.stderr)
            return False
        temporary.chmod(config.stat().st_mode & 0o777)
        temporary.replace(config)
    except (OSError, UnicodeDecodeError) as error:
        print(f"gpuemu: {config}: {error}; nothing was written.", file=sys.stderr)
        return False
    print_out(f"Wrote {count(len(accepted), 'tolerance')} to {config.name}.\n")
    return True


def _changed(text: str, envelope: ToleranceEnvelope, origin: str) -> str | None:
    index = kernel_index(text, envelope.kernel)
    if index is None:
        return None
    change = set_in_kernel(text, index, "tolerances", envelope.dtype, _value(envelope))
    if change is None:
        return None
    text = applied(text, change)
    note = remark(text, index, "tolerances", envelope.dtype, f"{_MARK} {envelope.dtype}:", _comment(envelope, origin))
    return applied(text, note) if note is not None else text


def _comment(envelope: ToleranceEnvelope, origin: str) -> str:
    return f"{_MARK} {envelope.dtype}: {origin}"


def _value(envelope: ToleranceEnvelope) -> str:
    tolerance = envelope.tolerance
    if tolerance.atol == tolerance.rtol:
        return f"{tolerance.atol:g}"
    return f"{{ atol = {tolerance.atol:g}, rtol = {tolerance.rtol:g} }}"


def _seed(options: CheckOptions, configured: int | None) -> int:
    return options.seed if options.seed_given or configured is None else configured
