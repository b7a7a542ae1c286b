"""``--expect``: errors that comments announce."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Place, Range, Severity
from gpuemu_lsp.engine.report.expected import expected_findings, verify
from gpuemu_lsp.engine.report.model import Run

BUGGY = "__global__ void k() {}\nx[i] = 1;  // past the end; expect: memory/out-of-bounds | memory/misaligned\n"


def run_of(*rules_and_lines: tuple[str, int], status: str = "failed") -> Run:
    findings = tuple(
        Finding(rule, "text", Place("/p/k.cu", Range.of(line, 0, line, 1)), Severity.ERROR, kernel="k")
        for rule, line in rules_and_lines
    )
    return Run("/p", (KernelReport("k", "/p/k.cu", status, compiled=True),), findings)


def test_comments_give_rules_and_lines():
    both, anywhere = expected_findings(BUGGY + "// expect-somewhere: sync/hang\n")
    assert both.rules == {"memory/out-of-bounds", "memory/misaligned"} and both.line == 1
    assert anywhere.rules == {"sync/hang"} and anywhere.line is None


@pytest.mark.parametrize(
    ("text", "found", "exit_code"),
    [
        (BUGGY, [("memory/out-of-bounds", 1), ("numeric/nan", 7)], 0),
        (BUGGY, [("memory/out-of-bounds", 0)], 1),
        (BUGGY, [("numeric/nan", 1)], 1),
        ("", [("memory/out-of-bounds", 1)], 1),
        ("", [], 0),
    ],
)
def test_an_announced_bug_must_be_found_and_no_other_kernel_may_fail(text, found, exit_code):
    run = run_of(*found, status="failed" if found else "passed")
    assert verify(run, {"/p/k.cu": text}).exit_code(run) == exit_code


def test_an_announced_finding_may_be_a_warning():
    run = run_of(("memory/out-of-bounds", 1), status="passed")
    warned = replace(run, findings=tuple(replace(one, severity=Severity.WARNING) for one in run.findings))
    assert verify(warned, {"/p/k.cu": BUGGY}).exit_code(warned) == 0
    assert verify(warned, {"/p/k.cu": ""}).exit_code(warned) == 0


@pytest.mark.parametrize("status", ["error", "not-executed"])
def test_a_kernel_that_did_not_run_is_never_as_expected(status):
    run = run_of(status=status)
    assert verify(run, {"/p/k.cu": ""}).exit_code(run) == 2
    run = run_of(("compile/error", 0), status=status)
    assert verify(run, {"/p/k.cu": "// expect-somewhere: compile/error"}).exit_code(run) == 2


def test_mismatches_name_file_line_and_rule():
    run = run_of(("numeric/nan", 4))
    assert verify(run, {"/p/k.cu": BUGGY}).text() == (
        "k.cu:2: 'k': expected memory/misaligned or memory/out-of-bounds, which was not found"
    )
    assert verify(run, {}).text() == "k.cu:5: 'k': unexpected numeric/nan"


def test_comments_of_python_announce_findings():
    text = "x = 1\ntl.store(y + i, v)  # expect: memory/out-of-bounds | memory/global-race\n"
    (found,) = expected_findings(text)
    assert found.line == 1 and found.rules == {"memory/out-of-bounds", "memory/global-race"}
