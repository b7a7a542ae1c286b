"""Settle the shapes of a kernel nobody configured, by probing it in the executor; or say what to write down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.check.model import CheckRequest
from gpuemu_lsp.engine.check.prepare import PreparedKernel
from gpuemu_lsp.engine.execution import Executor, Outcome, Request
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import pack_arguments, rebuild
from gpuemu_lsp.engine.fuzz.model import CaseKey, PlanError
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.plan.probe import probe
from gpuemu_lsp.engine.rules import make

_GUARD_BYTES = 1 << 23
"""So wide that an overrun of any candidate shape lies in its own buffer's guard zone."""
_PROBE_STEPS = 2_000_000
"""Basic blocks of one warp that a run may take; regular sizes are small."""
_PROBE_SECONDS = 5.0
"""Only a run that the steps do not end, on a machine that is very busy, comes to this."""

_PROBE_EVENTS = 1000
"""Other mistakes of a kernel must not end a run before it has touched all of its buffers."""


def settle_shapes(
    request: CheckRequest, prepared: PreparedKernel, plan: Plan, executor: Executor
) -> tuple[Plan | None, tuple[Finding, ...]]:
    """Return the plan with learned shapes and a hint that shows them, or None and what to add to gpuemu.toml."""
    assert prepared.artifact is not None
    artifact = prepared.artifact

    def run(candidate: Plan, dims: Mapping[str, int]) -> Outcome:
        case = rebuild(candidate, CaseKey(0, "default", dict(dims)))
        return executor.run(
            Request(
                artifact=artifact,
                entry=artifact.entries[plan.entry],
                grid=case.grid,
                block=case.block,
                shared_bytes=case.shared_bytes,
                arguments=pack_arguments(candidate, case),
                max_steps=_PROBE_STEPS,
                max_seconds=_PROBE_SECONDS,
                max_events=_PROBE_EVENTS,
                guard_bytes=_GUARD_BYTES,
            )
        )

    try:
        probed = probe(plan, run, _constants(prepared))
    except PlanError as error:
        return None, (_unsettled(request, plan, str(error)),)
    if probed.plan is None and not (request.registered and _has_shapes(plan)):
        return None, (_unsettled(request, plan, probed.reason),)
    settled = probed.plan or plan  # what a registered kernel's signature plainly says stands, whatever the kernel does
    shapes = [
        f"{arg.param}: {arg.direction} [{', '.join(map(str, arg.shape))}]"
        for arg in settled.args
        if isinstance(arg, TensorArg)
    ]
    params = tuple(f"{arg.param}: " for arg in plan.args if isinstance(arg, TensorArg))
    notes = (*shapes, *(note for note in plan.notes if not note.startswith(params)))  # its shapes were a first guess
    message = f"Nothing says how '{plan.kernel}' is launched; assumed: {'; '.join(notes)}."
    hint = make("config/launch-inferred", message, plan.place, kernel=plan.kernel, dtype=plan.dtype)
    return replace(settled, notes=notes), (hint,)


def _constants(prepared: PreparedKernel) -> tuple[int, ...]:
    """Return the file's plain integer constants, which may be lengths."""
    if prepared.source is None:
        return ()
    texts = (text.strip(" ()") for text in prepared.source.constants.values())
    return tuple(sorted({int(text) for text in texts if text.isdecimal() and len(text) < 7}))


def _has_shapes(plan: Plan) -> bool:
    """Say whether the signature alone gave every tensor its shape: one size for all of them."""
    return all(arg.shape for arg in plan.args if isinstance(arg, TensorArg))


def _unsettled(request: CheckRequest, plan: Plan, reason: str) -> Finding:
    message = f"'{plan.kernel}' was compiled but not run: {reason}. Say its dims, args and launch in gpuemu.toml."
    severity = Severity.WARNING if request.registered else Severity.HINT
    return make("engine/not-executed", message, plan.place, kernel=plan.kernel, severity=severity)
