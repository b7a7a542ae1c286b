"""Findings for jobs that crashed, raised, timed out or were cancelled.

The stage that the job last announced decides whether the user's reference or gpuemu-lsp is the cause.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpuemu_lsp.engine.check.model import StartedCase
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Related, Role, Severity
from gpuemu_lsp.engine.report.source_lines import line_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.languages import calls_function
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.model import Cancelled, Ending, Failed, TimedOut, WorkerDied

_FRAME = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+)')
_REFERENCE = "reference"


def ending_finding(request: CheckRequest, ending: Ending) -> Finding:
    """Return the finding for the check of one kernel that ended without a verdict."""
    name = request.spec.name
    match ending:
        case Cancelled(reason=reason):
            message = f"The check of '{name}' was ended: {reason}." if reason else "The check was cancelled."
            return _finding(request, "engine/not-executed", message)
        case Failed(stage=stage) if stage == _REFERENCE and request.spec.reference is not None:
            return _reference(request, f"The reference failed: {ending.kind}: {ending.message}", ending.traceback)
        case Failed():
            message = f"gpuemu-lsp failed while checking '{name}': {ending.kind}: {ending.message}"
            return _finding(request, "engine/internal-error", message, ending.stage, traceback=ending.traceback)
        case TimedOut(stage=stage) if stage == _REFERENCE:
            message = f"The reference did not return within the time limit of {ending.seconds:.0f} s."
            return _reference(request, message, ending.traceback)
        case WorkerDied() if calls_function(request.spec):
            return _op(request, ending)
        case TimedOut() if not request.registered:
            compiling = ending.stage in (None, "compile")
            why = "the compiler ran" if compiling else "with the assumed sizes it ran"
            message = f"'{name}' was not checked: {why} for more than {ending.seconds:.0f} s."
            return make("engine/not-executed", message, _kernel_place(request), kernel=name, severity=Severity.HINT)
        case TimedOut():
            message = f"The check of '{name}' exceeded {ending.seconds:.0f} s in stage '{ending.stage}'."
            return _finding(request, "engine/timeout", message, ending.stage)
        case WorkerDied(stage=stage) if stage == _REFERENCE:
            return _reference(request, f"The reference ended its worker process: {ending.reason}", ending.output)
        case WorkerDied(stage="compile") if not request.registered:
            # NVRTC crashes on some code whose headers are missing; the user did not register this kernel.
            message = f"'{name}' was not checked: the compiler crashed ({ending.reason})"
            return make("engine/not-executed", message, _kernel_place(request), kernel=name, severity=Severity.HINT)
        case WorkerDied():
            message = f"The process checking '{name}' died in stage '{ending.stage}': {ending.reason}"
            return _finding(request, "engine/worker-crashed", message, ending.stage)
        case _:
            return _finding(request, "engine/internal-error", f"The check of '{name}' ended without a verdict.")


def with_case(request: CheckRequest, finding: Finding, started: StartedCase | None) -> Finding:
    """Return the finding of an op that ended its process with the case that it ran, which is stored.

    The worker cannot store it any more, and has not done so before: most cases pass. The case in which the time limit
    of all cases was reached is named and not stored, as it need not be the one that took long.
    """
    if started is None or finding.rule not in ("op/error", "engine/timeout"):
        return finding
    placed = replace(finding, dtype=started.dtype, dims=dict(started.dims))
    if finding.rule == "engine/timeout":
        return placed
    placed = replace(placed, case=started.case)
    if request.options.store_root is None:
        return placed
    # The store needs NumPy, which the main process of a check imports in this case only.
    from gpuemu_lsp.engine.fuzz.model import CaseKey
    from gpuemu_lsp.engine.store import Failure, Store, StoreError

    try:
        with Store(request.options.store_root) as store:
            stored = [one.failure for one in store.find(started.case) if one.failure.kernel == request.spec.name]
            if started.kept and stored:
                record = stored[0]
            else:
                key = CaseKey(int(started.case), started.strategy, started.key_dims)
                record = Failure(request.spec.name, started.dtype, "", "", key)
            line = finding.place.range.start.line
            store.record(replace(record, rule=placed.rule, message=placed.message, dims=dict(started.dims), line=line))
    except StoreError as error:
        return replace(placed, message=f"{placed.message} (its case is not stored: {error})")
    return placed


def _finding(request: CheckRequest, rule: str, message: str, stage: str | None = None, **more: Json) -> Finding:
    data: dict[str, Json] = {"stage": stage, **more} if stage is not None or more else {}
    return make(rule, message, _kernel_place(request), kernel=request.spec.name, data=data)


def _reference(request: CheckRequest, message: str, trace: str) -> Finding:
    """Return a finding on the reference's line that ran last, if the trace contains it."""
    registered = Related(request.spec.places.get("reference") or _kernel_place(request), "this reference")
    return _on_last_line(request, "reference/error", message, trace, request.spec.reference, registered)


def _op(request: CheckRequest, ending: WorkerDied) -> Finding:
    """Return the finding of an op in whose process something ended it."""
    spec = request.spec
    # Outputs that are not declared are found before the first case, by calls of the reference and of the op.
    either = ending.stage == "compile" and _innermost(ending.output, spec.source) is None
    if ending.stage == _REFERENCE or (either and _innermost(ending.output, spec.reference) is not None):
        return _reference(request, f"The reference ended its worker process: {ending.reason}", ending.output)
    what = "The op, or its reference," if either else "The op"
    message = f"{what} ended the process that runs it: {ending.reason}"
    entry = Related(_kernel_place(request), "the entry of the op", Role.OP_ENTRY)
    return _on_last_line(request, "op/error", message, ending.output, spec.source, entry)


def _on_last_line(
    request: CheckRequest, rule: str, message: str, trace: str, path: str | None, registered: Related
) -> Finding:
    """Return a finding on the line of ``path`` that ran last, on its entry in gpuemu.toml if the trace has none."""
    name, line = request.spec.name, _innermost(trace, path)
    if line is None or path is None:
        return make(rule, message, registered.place, kernel=name)
    text = line_text(path, line)
    indent = len(text) - len(text.lstrip())
    place = Place(path, Range.of(line, indent, line, max(len(text.encode()), indent + 1)))
    return make(rule, message, place, kernel=name, related=(registered,))


def _innermost(trace: str, path: str | None) -> int | None:
    """Return the 0-based line of ``path`` that ran last.

    faulthandler writes the innermost frame first, a Python traceback last; the latter starts with ``Traceback``.
    """
    lines = [int(match["line"]) - 1 for match in _FRAME.finditer(trace) if match["path"] == path]
    if not lines:
        return None
    return lines[-1] if trace.lstrip().startswith("Traceback") else lines[0]


def _kernel_place(request: CheckRequest) -> Place:
    spec = request.spec
    return spec.places.get("name") or spec.places.get("") or Place(spec.source, Range.of(0, 0, 0, 1))
