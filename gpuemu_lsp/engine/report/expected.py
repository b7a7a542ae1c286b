"""Findings that comments announce, in the manner of clang's ``-verify``: for kernels with planted or known bugs.

``// expect: rule | rule``             one of these rules, on this line
``// ... expect-somewhere: rule``      one of these rules, anywhere in the file (in its first line)

In Python ``#`` begins these comments.

A file announces one bug: several comments name several lines on which it may show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE
from gpuemu_lsp.engine.report.model import Run, relative

_RULES = r"([a-z]+/[a-z-]+(?:\s*\|\s*[a-z]+/[a-z-]+)*)"
_LINE = re.compile(rf"(?://|#).*?\bexpect:\s*{_RULES}")
_COUNTED = (Severity.ERROR, Severity.WARNING)
_ANYWHERE = re.compile(rf"\bexpect-somewhere:\s*{_RULES}")


@dataclass(frozen=True, slots=True)
class ExpectedFinding:
    """Alternative rules, and the 0-based line they are announced on; None for any line."""

    rules: frozenset[str]
    line: int | None

    def matches(self, finding: Finding) -> bool:
        """Return whether ``finding`` is one of those announced."""
        return finding.rule in self.rules and self.line in (None, finding.place.range.start.line)


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of a run with the comments of its sources.

    ``mismatches`` are lines of text: an announced bug that was not found, or an error in a kernel that announces none.
    An announced finding may be a warning.
    """

    announced: int
    mismatches: tuple[str, ...]

    def exit_code(self, run: Run) -> int:
        """Return 0 when everything ran and nothing differs; what did not run is never as expected."""
        if run.exit_code not in (EXIT_CLEAN, EXIT_FINDINGS):
            return run.exit_code
        if any(kernel.registered and kernel.status in ("error", "not-executed") for kernel in run.kernels):
            return EXIT_USAGE
        return EXIT_FINDINGS if self.mismatches else EXIT_CLEAN

    def text(self) -> str:
        """Return the result as lines for a person."""
        if self.mismatches:
            return "\n".join(self.mismatches)
        return f"As expected: each of the {self.announced} announced bugs was found, and no other kernel has an error."


def expected_findings(text: str) -> tuple[ExpectedFinding, ...]:
    """Read the comments of one source."""
    expectations = []
    for number, line in enumerate(text.split("\n")):
        if match := _LINE.search(line):
            expectations.append(ExpectedFinding(_split(match.group(1)), number))
        if match := _ANYWHERE.search(line):
            expectations.append(ExpectedFinding(_split(match.group(1)), None))
    return tuple(expectations)


def verify(run: Run, texts: Mapping[str, str]) -> Verification:
    """Compare the errors of ``run`` with what its sources announce; ``texts`` is by absolute path."""
    announced, mismatches = 0, []
    for kernel in run.kernels:
        expected = expected_findings(texts.get(kernel.source, ""))
        counted = [one for one in run.findings if one.kernel == kernel.name and one.severity in _COUNTED]
        errors = [one for one in counted if one.severity is Severity.ERROR]
        if expected:
            announced += 1
            if not any(one.matches(finding) for one in expected for finding in counted):
                mismatches.append(_missing(kernel, expected, run.root))
        mismatches += [] if expected else [_unexpected(kernel, error, run.root) for error in errors]
    return Verification(announced, tuple(mismatches))


def _split(rules: str) -> frozenset[str]:
    return frozenset(rule.strip() for rule in rules.split("|"))


def _missing(kernel: KernelReport, expected: tuple[ExpectedFinding, ...], root: str) -> str:
    first = expected[0]
    where = relative(kernel.source, root) + ("" if first.line is None else f":{first.line + 1}")
    return f"{where}: '{kernel.name}': expected {' or '.join(sorted(first.rules))}, which was not found"


def _unexpected(kernel: KernelReport, error: Finding, root: str) -> str:
    where = f"{relative(error.place.path, root)}:{error.place.range.start.line + 1}"
    return f"{where}: '{kernel.name}': unexpected {error.rule}"
