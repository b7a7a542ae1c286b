"""The verdict on a check in one word, and in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.report.text import count

CLEAN, WRONG, UNSAFE, NOT_CHECKED = "clean", "wrong", "unsafe", "not-checked"
VERDICTS = (CLEAN, WRONG, UNSAFE, NOT_CHECKED)
RAN = ("passed", "failed", "unreferenced")
"""Statuses of kernels whose cases ran."""
_UNSAFE = ("memory/", "sync/", "api/")
_OF_CASES = (*_UNSAFE, "numeric/")
_NOT_OF_KERNELS = ("engine/", "compile/", "config/", "reference/")
"""Groups of errors that kept a kernel from running: they say nothing about what it computes."""


def verdict_of(kernels: Sequence[KernelReport], findings: Sequence[Finding]) -> str:
    """Return the verdict: an error decides, then what did not run.

    A kernel with a finding that rests on an assumption is not clean: at sizes that a caller may have, it may be wrong.
    Nor is one of which neither a reference says what it computes, nor any code how it is launched.
    """
    errors = [finding.rule for finding in findings if finding.severity is Severity.ERROR]
    rules = [rule for rule in errors if not rule.startswith(_NOT_OF_KERNELS)]
    if any(rule.startswith(_UNSAFE) for rule in rules):
        return UNSAFE
    if rules:
        return WRONG
    ran = bool(kernels) and all(kernel.status in ("passed", "unreferenced") for kernel in kernels)
    clean = ran and not any(
        assumed_findings(kernel, findings) or (not kernel.compared and guessed_launch(kernel, findings))
        for kernel in kernels
    )
    return CLEAN if clean and not errors else NOT_CHECKED


def guessed_launch(kernel: KernelReport, findings: Sequence[Finding]) -> Finding | None:
    """Return the finding that says how a kernel is launched for lack of code that launches it."""
    return next((one for one in findings if one.kernel == kernel.name and one.data.get("guessed") is True), None)


def assumed_findings(kernel: KernelReport, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a kernel that would be errors if something were known that is assumed."""
    informations = (item for item in findings if item.severity is Severity.INFORMATION and item.case is not None)
    return [item for item in informations if item.kernel == kernel.name and item.rule.startswith(_OF_CASES)]


def verdict_sentence(
    verdict: str, kernels: Sequence[KernelReport], findings: Sequence[Finding], reason: str | None = None
) -> str:
    """Return the verdict with what ran, the first error, and what it leaves open.

    Parameters
    ----------
    reason
        Why nothing is known, for the verdict ``not-checked``.
    """
    ran = sum(kernel.status in RAN for kernel in kernels)
    cases = sum(kernel.cases.run for kernel in kernels)
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    parts = [
        f"{verdict}: {ran} of {count(len(kernels), 'kernel')} ran, {count(cases, 'case')}, "
        f"{count(len(errors), 'error')}"
    ]
    if errors:
        first = errors[0]
        parts.append(f"first {first.rule} at line {first.place.range.start.line + 1} of {Path(first.place.path).name}")
    assumed = [finding for kernel in kernels for finding in assumed_findings(kernel, findings)]
    if assumed:
        first = assumed[0]
        passed = sum(kernel.cases.passed for kernel in kernels)
        parts.append(
            f"{passed} of {count(cases, 'case')} clean, and {count(len(assumed), 'finding')} that rest on assumptions: "
            f"first {first.rule} at line {first.place.range.start.line + 1}, {first.message}"
        )
    if verdict == CLEAN and not all(kernel.compared for kernel in kernels):
        parts.append("not all numbers were compared with a reference")
    guessed = any(not kernel.compared and guessed_launch(kernel, findings) for kernel in kernels)
    if verdict == NOT_CHECKED and reason is not None and not assumed:
        parts.append(reason.rstrip("."))
    elif verdict == NOT_CHECKED and guessed:
        parts.append("no code launches it, and no reference says what it computes")
    return "; ".join(parts) + "."
