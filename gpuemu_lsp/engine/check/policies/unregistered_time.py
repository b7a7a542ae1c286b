"""Time limits of kernels that are not registered: their sizes are guesses, and other kernels wait for the worker."""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.time_limit import SharedDeadline, TimeLimit

_SECONDS = 6.0
"""Time of the probing launches and the cases, with all dtypes."""
_CASE_SECONDS = 3.0
_LEAST_SHARE = 0.25
"""Share of this time that the cases have without translation, however long that takes."""
_TOTAL_FACTOR = 2.75
"""The whole check, with compilation, confirmation and recording, begins no further step after so many times as long."""
_INSTANCE_SHARE = 5 / 11
"""Share of this time that must be left for a further instance or type to begin: it is translated first."""


def limited(request: CheckRequest) -> tuple[CheckRequest, SharedDeadline]:
    """Return the request with the limits of an unregistered kernel, and the deadline of its check.

    What the user's code takes, such as an import of PyTorch, is not the kernel's: there is no deadline then.
    """
    options = request.options
    seconds = min(_SECONDS if options.seconds is None else options.seconds, _SECONDS)
    options = replace(options, seconds=seconds, case_seconds=min(options.case_seconds, _CASE_SECONDS))
    limit = TimeLimit(_TOTAL_FACTOR * seconds) if request.user_code is None else None
    return replace(request, options=options), SharedDeadline(limit)


def least_seconds(options: CheckOptions, plans: int) -> float:
    """Return the seconds that the cases of one of ``plans`` have, without translation, whatever preceded them."""
    return _LEAST_SHARE * (options.seconds or 0.0) / plans


def left_for_instance(deadline: SharedDeadline) -> float:
    """Return the seconds that a further instance or type needs."""
    return 0.0 if deadline.limit is None else _INSTANCE_SHARE * deadline.limit.seconds


def did_not_finish(plan: Plan, deadline: SharedDeadline, *, ran: bool) -> Finding:
    """Return the finding that the deadline has passed before a plan ran; ``ran``: another plan of the kernel did."""
    rule = "config/launch-inferred" if ran else "engine/not-executed"
    seconds = 0.0 if deadline.limit is None else deadline.limit.seconds - left_for_instance(deadline)
    message = (
        f"The check of '{plan.kernel}' did not finish: '{plan.entry}' did not run as {plan.dtype} in the "
        f"{seconds:.3g} s of a kernel that is not registered."
    )
    return make(rule, message, plan.place, kernel=plan.kernel, dtype=plan.dtype, severity=Severity.HINT)


def left_to_other_instances(finding: Finding) -> Finding:
    """Return a finding, as one about a part if the translation of an instance took too long and another one has run."""
    if finding.rule == "engine/not-executed" and finding.cause is Cause.TRANSLATION_TIME:
        return replace(finding, rule="config/launch-inferred", severity=Severity.HINT)
    return finding


def after_hang(plan: Plan) -> Finding:
    """Return the hint that a plan did not run because another one of the kernel did not end."""
    message = f"'{plan.entry}' did not run as {plan.dtype}: another instance did not run to completion."
    return make("config/launch-inferred", message, plan.place, kernel=plan.kernel, dtype=plan.dtype)


def left_out(plan: Plan, ran: int, seconds: float) -> Finding:
    """Return the hint that the time of an unregistered kernel has ended before all its cases ran."""
    cases = "1 case" if ran == 1 else f"{ran} cases"
    message = f"'{plan.kernel}' ran on {cases} only, in the {seconds:.3g} s of a kernel that is not registered."
    return make("config/launch-inferred", message, plan.place, kernel=plan.kernel, dtype=plan.dtype)
