"""Claims about kernels that a recorded run has launched.

What goes wrong in a launch that the program has made is an error. Other values and sizes are ones that the program may
never have: a finding is then information, unless the launch rounds the size up to whole blocks and the size lies
between recorded ones.
"""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.check.policies.guessed_launch import not_checked
from gpuemu_lsp.engine.execution import Event
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle import Mismatch
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.recordings.cases import SAME, SIZED, RecordedLaunches, strategy_parts

_INCOMPLETE_RULES = frozenset({"sync/trap", "sync/hang", "sync/deadlock"})


def claim_on_recorded_launch(
    finding: Finding, event: Event | None, plan: Plan, recorded: RecordedLaunches, case: Case
) -> Finding:
    """Return the finding with the severity that holds for the launches of the program."""
    if event is not None and event.rule == "engine/timeout":
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    if event is not None and event.cause is not None and event.cause.is_time_limit:
        # On the program's sizes a loop may be long and not endless, and the time depends on the machine.
        return _not_checked(finding)
    digest, kind = strategy_parts(case.key.strategy) or ("", "")
    if finding.severity is not Severity.ERROR:
        return finding
    if kind == SAME:
        launch = recorded.case(digest)
        text = launch.text if launch is not None else "the run"
        return replace(finding, message=f"{finding.message}; as recorded in {text}")
    if finding.rule in _INCOMPLETE_RULES:
        return _not_checked(finding)
    if kind == SIZED:
        if _is_sure(recorded, case):
            return finding
        sizes = ", ".join(f"{name} = {size}" for name, size in case.dims.items())
        message = f"{finding.message}; the recorded run does not launch it with {sizes}"
    else:
        message = f"{finding.message}; the recorded run has other values"
    return replace(finding, severity=Severity.INFORMATION, message=message)


def is_judged_in_recording(mismatch: Mismatch) -> bool:
    """Return whether a mismatch says something: a program need not write all of its memory in one launch."""
    return mismatch.rule != "numeric/unwritten-output"


def _is_sure(recorded: RecordedLaunches, case: Case) -> bool:
    """Return whether the program may launch the only size of a case: it is rounded up, and between recorded ones."""
    if len(case.dims) != 1:
        return False
    ((name, size),) = case.dims.items()
    known = recorded.sizes.get(name, ())
    return name in recorded.ragged and bool(known) and min(known) <= size <= max(known)


def _not_checked(finding: Finding) -> Finding:
    message = f"'{finding.kernel}' was not checked to its end: {finding.message.rstrip('.')}."
    # The recorded launch is the one that counts, whichever others run to completion.
    return replace(not_checked(finding), message=message, data={})
