"""Reuse of stored verdicts by a check: look-up before its launches, storage after them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.verdicts import cache
from gpuemu_lsp.engine.check.verdicts.key import verdict_key
from gpuemu_lsp.engine.check.verdicts.record import StoredVerdict, VerdictContext, is_repeatable
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.oracle.opened_files import file_digest, file_digests, forget_files
from gpuemu_lsp.engine.store import Store, StoreError
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest


@dataclass(frozen=True, slots=True)
class ReusedVerdict:
    """Findings and report of an earlier check of the same code, placed in the current text."""

    findings: tuple[Finding, ...]
    report: KernelReport


def find_verdict(request: CheckRequest, prepared: PreparedKernel) -> ReusedVerdict | None:
    """Return the stored verdict of a kernel, None if it is to be checked."""
    if request.options.verdicts not in ("reuse", "find") or not _storable(request):
        return None
    # The identity of a verdict is that of one artifact.
    if prepared.subject is None or not prepared.subject.single:
        return None
    key = verdict_key(request, prepared)
    verdict = cache.load(key, StoredVerdict) if key is not None else None
    if key is None or verdict is None or any(file_digest(path) != digest for path, digest in verdict.files.items()):
        return None
    restored = VerdictContext(request, prepared).restored(verdict)
    if restored is None:
        return None
    findings, report = restored
    moved = verdict.moved_to(findings)
    if moved != verdict:
        _move_failures(request, verdict, findings)
        cache.store(key, moved)
    return ReusedVerdict(findings, report)


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
        or prepared.subject is None
        or not prepared.subject.single
        or not is_repeatable(runs, findings, cut_short)
    ):
        return
    files = file_digests() if request.spec.reference is not None else {}
    key = verdict_key(request, prepared)
    if files is None or key is None or (request.spec.reference is not None and request.spec.reference not in files):
        return
    verdict = VerdictContext(request, prepared).stored(runs, findings, report, files)
    if verdict is not None:
        cache.store(key, verdict)


def _storable(request: CheckRequest) -> bool:
    options = request.options
    return options.execute and not options.unoptimized and not options.coverage


def _move_failures(request: CheckRequest, verdict: StoredVerdict, findings: Sequence[Finding]) -> None:
    """Move the stored failing cases to the new lines of their findings."""
    lines = {
        (new.dtype, new.rule, old.finding.place.range.start.line): new.place.range.start.line
        for old, new in zip(verdict.findings, findings, strict=True)
        if new.dtype is not None and new.case is not None
    }
    if request.options.store_root is None or not lines:
        return
    with contextlib.suppress(StoreError), Store(request.options.store_root) as store:
        store.move(request.spec.name, lines)
