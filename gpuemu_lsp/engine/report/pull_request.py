"""The comment on a pull request: verdicts and findings of the change and of its base, from ``--format json``.

A finding is *fixed* only if its kernel ran and, for wrong numbers, was compared: the comment says what is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

from gpuemu_lsp.engine.report.markdown import MARK, SIGNS, code_span, escape, table
from gpuemu_lsp.engine.report.text import count
from gpuemu_lsp.engine.report.verdict import RAN

Report: TypeAlias = Mapping[str, Any]
"""A document of ``--format json``."""


@dataclass(frozen=True, slots=True)
class Side:
    """A report, and the address of its lines: ``blob`` is that of the folder of the run at a commit."""

    report: Report
    blob: str

    def link(self, finding: Report) -> str:
        """Return a link to the line of a finding."""
        line = finding["range"]["start"]["line"] + 1
        place = f"{finding['path']}:{line}"
        return f"[{code_span(place)}]({self.blob}/{quote(finding['path'])}#L{line})"


@dataclass(frozen=True, slots=True)
class FindingChanges:
    """Errors and warnings by what a change does to them. ``unknown``: of kernels that did not run now."""

    new: tuple[Report, ...]
    fixed: tuple[Report, ...]
    kept: tuple[Report, ...]
    unknown: tuple[Report, ...]


def compare_reports(base: Report, head: Report) -> FindingChanges:
    """Compare the findings of two reports.

    They are the same by fingerprint, which holds the text of the line; else, if an edited line still has the error, by
    rule, file, kernel and dtype.
    """
    before, now = list(_shown(base)), list(_shown(head))
    kept: list[Report] = []
    for key in (_fingerprint, _kind):
        for finding in list(now):
            same = next((other for other in before if key(other) == key(finding)), None)
            if same is not None:
                before.remove(same)
                now.remove(finding)
                kept.append(finding)
    ran = {kernel["name"]: kernel for kernel in head["kernels"] if kernel["status"] in RAN}
    all_ran = len(ran) == len(head["kernels"])
    there = {kernel["name"] for kernel in head["kernels"]}

    def is_known(finding: Report) -> bool:
        """Return whether the finding would be reported if it were still there."""
        name = finding["kernel"]
        if name not in there:
            return all_ran
        return name in ran and (ran[name]["compared"] or not finding["rule"].startswith("numeric/"))

    fixed = tuple(finding for finding in before if is_known(finding))
    unknown = tuple(finding for finding in before if not is_known(finding))
    return FindingChanges(tuple(now), fixed, tuple(kept), unknown)


def render_comment(head: Side, base: Side | None, why_no_base: str = "") -> str:
    """Render the comment.

    Parameters
    ----------
    why_no_base
        Why the base was not checked, for a comment without one.
    """
    kernels = head.report["kernels"]
    not_run = [kernel for kernel in kernels if kernel["status"] not in RAN]
    lines = [MARK]
    if base is None:
        lines += [f"## gpuemu: {_verdict(head.report, not_run)}", ""]
        lines += [f"Not compared with the base: {escape(why_no_base or 'it was not checked')}.", ""]
        lines += _section("Findings", list(_shown(head.report)), head)
    else:
        changes = compare_reports(base.report, head.report)
        parts = [f"{len(changes.new)} new", f"{len(changes.fixed)} fixed", f"{len(changes.kept)} as before"]
        lines += [f"## gpuemu: {_verdict(head.report, not_run)}", "", f"Findings: {', '.join(parts)}.", ""]
        lines += _section("New", changes.new, head)
        lines += _section("Fixed", changes.fixed, base)
        lines += _section("Not known any more: their kernels did not run, or were not compared", changes.unknown, base)
        lines += _section("As before", changes.kept, head)
    if not_run:
        lines += ["### Did not run", ""]
        lines += table(("Kernel", "Reason"), [(escape(item["name"]), _reason(item, head.report)) for item in not_run])
    if kernels:
        rows = list(_verdict_rows(head.report, base.report if base is not None else None))
        heads = ("Kernel", "Verdict", "Cases passed") if base is None else ("Kernel", "Base", "Now", "Cases passed")
        lines += ["<details><summary>Every kernel</summary>", "", *table(heads, rows), "</details>", ""]
    return "\n".join(lines) + "\n"


def _shown(report: Report) -> Iterator[Report]:
    """Yield errors and warnings; that a kernel did not run has a table of its own."""
    for finding in report["findings"]:
        if finding["severity"] in ("error", "warning") and finding["rule"] != "engine/not-executed":
            yield finding


def _fingerprint(finding: Report) -> str:
    return str(finding["fingerprint"])


def _kind(finding: Report) -> tuple[str, ...]:
    return tuple(str(finding[key]) for key in ("rule", "path", "kernel", "dtype"))


def _verdict(report: Report, not_run: Sequence[Report]) -> str:
    if not report["kernels"]:
        return "nothing was checked"
    errors = sum(finding["severity"] == "error" for finding in _shown(report))
    parts = [count(errors, "error")] if errors else []
    parts += [f"{len(not_run)} of {count(len(report['kernels']), 'kernel')} did not run"] if not_run else []
    return ", ".join(parts) or f"{count(len(report['kernels']), 'kernel')} clean"


def _section(title: str, findings: Iterable[Report], side: Side) -> list[str]:
    rows = [(side.link(item), escape(item["kernel"] or ""), _what(item)) for item in findings]
    return [f"### {title}", "", *table(("Location", "Kernel", "Finding"), rows)] if rows else []


def _what(finding: Report) -> str:
    message = str(finding["message"]).partition("\n")[0]
    return f"{finding['severity']} **{escape(finding['rule'])}**<br>{escape(message)}"


def _reason(kernel: Report, report: Report) -> str:
    """Return why a kernel did not run, from the findings about it or its file."""
    about = [item for item in report["findings"] if item["kernel"] == kernel["name"]]
    about += [item for item in report["findings"] if item["kernel"] is None and item["path"] == kernel["source"]]
    decisive = [item for item in about if item["rule"].startswith(("engine/", "compile/", "config/", "reference/"))]
    message = next((item["message"] for item in (*decisive, *about)), f"its status is {kernel['status']}")
    return escape(str(message).partition("\n")[0])


def _verdict_rows(head: Report, base: Report | None) -> Iterator[tuple[str, ...]]:
    before = {(kernel["name"], kernel["source"]): kernel for kernel in (base or {"kernels": ()})["kernels"]}
    for kernel in head["kernels"]:
        other = before.pop((kernel["name"], kernel["source"]), None)
        cases = f"{kernel['cases']['passed']}/{kernel['cases']['run']}"
        middle = () if base is None else (_status(other),)
        yield (escape(kernel["name"]), *middle, _status(kernel), cases)
    for kernel in before.values():
        yield escape(kernel["name"]), _status(kernel), "removed", ""


def _status(kernel: Report | None) -> str:
    return "not there" if kernel is None else f"{SIGNS[kernel['status']]} {kernel['status']}"
