"""Reuse of stored verdicts by a check: look-up before its launches, storage after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.check.model import CheckRequest, KernelReport
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.prepare import PreparedKernel
from gpuemu_lsp.engine.check.verdicts import cache
from gpuemu_lsp.engine.check.verdicts.key import verdict_key
from gpuemu_lsp.engine.check.verdicts.record import VerdictContext, is_repeatable
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.oracle.opened_files import file_digest, file_digests, forget_files
from gpuemu_lsp.engine.store import Store, StoreError


@dataclass(frozen=True, slots=True)
class ReusedVerdict:
    """Findings and report of an earlier check of the same code, placed in the current text."""

    findings: tuple[Finding, ...]
    report: KernelReport


def find_verdict(request: CheckRequest, prepared: PreparedKernel) -> ReusedVerdict | None:
    """Return the stored verdict of a kernel, None if it is to be checked."""
    if request.options.verdicts not in ("reuse", "find") or not _storable(request):
        return None
    key = verdict_key(request, prepared)
    verdict = cache.load(key) if key is not None else None
    if verdict is None or any(file_digest(path) != digest for path, digest in verdict.files.items()):
        return None
    restored = VerdictContext.of(request, prepared).restored(verdict)
    if restored is None:
        return None
    _update_lines(request, restored[0])
    return ReusedVerdict(*restored)


def begin_recording() -> None:
    """Forget the files that earlier checks in this process read."""
    forget_files()


def store_verdict(
    request: CheckRequest,
    prepared: PreparedKernel,
    runs: Sequence[PlanRun],
    findings: Sequence[Finding],
    report: KernelReport,
    cut_short: bool,
) -> None:
    """Store the verdict of a finished check under the key that a check has from now on.

    The stored cases of the project are part of the key, and the check has changed them: all that it added are cases of
    this code, which it has run.
    """
    if (
        request.options.verdicts not in ("record", "reuse")
        or not _storable(request)
        or not is_repeatable(runs, findings, cut_short)
    ):
        return
    files = file_digests() if request.spec.reference is not None else {}
    key = verdict_key(request, prepared)
    if files is None or key is None or (request.spec.reference is not None and request.spec.reference not in files):
        return
    verdict = VerdictContext.of(request, prepared).stored(runs, findings, report, files)
    if verdict is not None:
        cache.store(key, verdict)


def _storable(request: CheckRequest) -> bool:
    options = request.options
    return options.execute and not options.unoptimized and not options.coverage


def _update_lines(request: CheckRequest, findings: Sequence[Finding]) -> None:
    """Move the stored failing cases to the lines of their findings."""
    failing = [finding for finding in findings if finding.case is not None and finding.dtype is not None]
    if request.options.store_root is None or not failing:
        return
    try:
        with Store(request.options.store_root) as store:
            for one in failing:
                assert one.case is not None and one.dtype is not None
                store.move(request.spec.name, one.dtype, one.case, one.rule, one.place.range.start.line)
    except StoreError:
        return
