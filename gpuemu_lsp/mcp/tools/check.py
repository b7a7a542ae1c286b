"""``check``: a verdict within a time budget, what ran, and what did not."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from gpuemu_lsp.engine.check.model import CheckEvent, KernelReport, Stage
from gpuemu_lsp.engine.findings import Finding, Json, Severity
from gpuemu_lsp.engine.jobs.pools import split_time_budget
from gpuemu_lsp.engine.jobs.requests.targets import Targets
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.project.revision import changed_files
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.text import count
from gpuemu_lsp.engine.report.verdict import (
    NOT_CHECKED,
    RAN,
    VERDICTS,
    assumed_findings,
    guessed_launch,
    verdict_of,
    verdict_sentence,
)
from gpuemu_lsp.engine.subjects.request import FIRST_CASES, CheckOptions, CheckRequest
from gpuemu_lsp.mcp.call import CANCELLED, Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.records import FINDING, Lines, finding_facts
from gpuemu_lsp.mcp.schemas import Schema, array, boolean, integer, nullable, number, record, text
from gpuemu_lsp.mcp.session import ReportedFinding
from gpuemu_lsp.mcp.targets import MOST_CASES, WHAT, Given, digests, given, origin_of, targets_of

BUDGET = 60
MOST_SECONDS = 3600
_CASES_SHARE = 0.7
"""Share of the budget after which no further case begins, so that kernels have a verdict before it ends."""

_KERNEL: Schema = record(
    {
        "kernel": text(),
        "file": text(),
        "status": text(choices=("passed", "failed", "error", "unreferenced", "not-executed")),
        "registered": boolean("gpuemu.toml has an entry for it"),
        "cases": record({"run": integer(minimum=0), "passed": integer(minimum=0)}),
        "numbers_compared": boolean("its results were compared with a reference"),
        "executor": text(),
    }
)
_DID_NOT_RUN: Schema = record(
    {"what": text(), "kernel": nullable(text()), "file": nullable(text()), "reason": text(), "next": text()}
)
RESULT: Schema = record(
    {
        "verdict": text(choices=VERDICTS),
        "summary": text("the verdict as a sentence"),
        "sources": array(
            record({"file": text(), "role": text(choices=("source", "reference")), "sha256": nullable(text())}),
            "what was judged",
        ),
        "kernels": array(_KERNEL),
        "findings": array(FINDING, "errors first"),
        "did_not_run": array(_DID_NOT_RUN, "what the verdict leaves open"),
        "changed_since_commit": array(
            record({"file": text(), "state": text(choices=("changed", "not in the repository"))}),
            "gpuemu.toml and references that are not as in the last commit: they decide what is right",
        ),
        "seconds": number(minimum=0),
        "budget": number(minimum=0),
    }
)


def _check(call: ToolCall) -> dict[str, Json]:
    budget = call.arguments.get("budget", BUDGET)
    assert isinstance(budget, int | float)
    cases, arch = call.arguments.get("cases"), call.arguments.get("arch")
    options = CheckOptions(
        cases=cases if isinstance(cases, int) else None,
        arch=arch if isinstance(arch, str) else None,
        seconds=_CASES_SHARE * budget,
    )
    with call.budget(budget):
        what = given(call.session, call.arguments)
        try:
            targets = call.read(lambda: targets_of(call.session, what, options, call.arguments.get("kernel")))
        except ToolError:
            if not call.reason:
                raise
            targets = Targets(str(what.folder), (), ())
        before = digests(targets.requests, targets.root)
        run = run_checks(call, targets)
        after = digests(targets.requests, targets.root)
    if call.reason == CANCELLED:
        raise ToolError("The check was cancelled.")
    return check_record(call, what, targets, run, sources=before, moved=before != after) | {
        "seconds": round(call.seconds, 3),
        "budget": budget,
    }


def run_checks(call: ToolCall, targets: Targets) -> Run:
    """Check the kernels of a call, reporting its progress."""
    total = len(targets.requests)
    ended: set[tuple[str, str]] = set()
    lock = threading.Lock()

    def on_event(event: CheckEvent) -> None:
        with lock:
            if isinstance(event, KernelReport):
                ended.add((event.source, event.name))
                call.report(len(ended), total, f"{event.name}: {event.status}")
            elif isinstance(event, Stage):
                # A step within a kernel is less than a kernel.
                share = 0.9 * event.done / event.total if event.total else 0.0
                call.report(len(ended) + share, total, f"{event.kernel}: {event.stage}")

    requests = split_time_budget(targets.requests, None)
    return run_requests(requests, targets.findings, targets.root, call, on_event)


def check_record(
    call: ToolCall, what: Given, targets: Targets, run: Run, *, sources: list[Json], moved: bool
) -> dict[str, Json]:
    """Return a finished check, whose findings can be asked for from now on. ``moved``: a file changed meanwhile."""
    lines = Lines()
    open_points = list(_did_not_run(call, targets, run, moved))
    verdict = NOT_CHECKED if moved else verdict_of(run.kernels, run.findings)
    reason = str(open_points[0]["reason"]) if open_points else None
    shown: list[Json] = []
    for finding in _sorted(run.findings):
        facts = finding_facts(finding, run.root, lines)
        shown.append(facts)
        request = _request_of(finding, targets)
        if request is not None:
            call.session.add(ReportedFinding(finding, origin_of(what, request), facts))
    kernels: list[Json] = [_kernel(kernel, run.root) for kernel in run.kernels]
    return {
        "verdict": verdict,
        "summary": verdict_sentence(verdict, run.kernels, run.findings, reason),
        "sources": sources,
        "kernels": kernels,
        "findings": shown,
        "did_not_run": [dict(point) for point in open_points],
        "changed_since_commit": [] if what.private else _changed(targets),
    }


def _request_of(finding: Finding, targets: Targets) -> CheckRequest | None:
    """Return the request of the kernel of a finding; kernels of several files may share a name."""
    requests = [request for request in targets.requests if request.spec.name == finding.kernel]
    own = (request for request in requests if request.spec.source == finding.place.path)
    return next(own, requests[0] if requests else None)


def _sorted(findings: tuple[Finding, ...]) -> list[Finding]:
    order = {severity: number_ for number_, severity in enumerate(Severity)}
    return sorted(findings, key=lambda finding: order[finding.severity])


def _kernel(kernel: KernelReport, root: str) -> Json:
    return {
        "kernel": kernel.name,
        "file": relative(kernel.source, root),
        "status": kernel.status,
        "registered": kernel.registered,
        "cases": {"run": kernel.cases.run, "passed": kernel.cases.passed},
        "numbers_compared": kernel.compared,
        "executor": kernel.executor,
    }


def _did_not_run(call: ToolCall, targets: Targets, run: Run, moved: bool) -> Iterator[dict[str, Json]]:
    """Yield what a verdict leaves open, with the reason and the next step."""

    def point(what: str, reason: str, then: str, kernel: KernelReport | None = None) -> dict[str, Json]:
        name = kernel.name if kernel is not None else None
        file = relative(kernel.source, run.root) if kernel is not None else None
        return {"what": what, "kernel": name, "file": file, "reason": reason, "next": then}

    if moved:
        yield point("the check of the files as they are now", "a file changed during the check", "check again")
    seconds = {(one.spec.source, one.spec.name): one.options.seconds for one in targets.requests}
    referenced = {(one.spec.source, one.spec.name) for one in targets.requests if one.spec.reference is not None}
    for kernel in run.kernels:
        if kernel.status not in RAN:
            reasons = [one for one in run.findings if kernel.name == one.kernel or _of_file(one, kernel)]
            decisive = [one for one in reasons if one.rule.startswith(("engine/", "reference/", "compile/", "config/"))]
            reason = next((one.message for one in (*decisive, *reasons)), f"its status is {kernel.status}")
            what = "its cases" if kernel.compiled else "compilation"
            yield point(what, reason, _step(kernel, decisive, bool(call.reason)), kernel)
            continue
        if not kernel.compared:
            reason, then = _not_compared((kernel.source, kernel.name) in referenced)
            yield point("comparison of its numbers", reason, then, kernel)
        if guess := guessed_launch(kernel, run.findings):
            yield point(
                "launches that its callers make", guess.message, "check it with the code that launches it", kernel
            )
        if assumed := assumed_findings(kernel, run.findings):
            reason = f"{count(len(assumed), 'finding')} of severity information: {assumed[0].message}"
            yield point("sizes and launches that are assumed", reason, "register it with its real sizes", kernel)
        limit, took = seconds.get((kernel.source, kernel.name)), kernel.timing_ms.get("total", 0.0) / 1e3
        if limit is not None and took > limit and kernel.status != "failed" and kernel.cases.run < FIRST_CASES:
            reason = f"after {limit:.0f} s, its share of the budget, no further case begins"
            yield point(f"cases after the first {kernel.cases.run}", reason, "check with a larger budget", kernel)
    if not run.kernels:
        messages = " ".join(finding.message for finding in run.findings) or call.reason or "there is no kernel"
        then = "name fewer files, or give a larger budget" if call.reason else "name a file with kernels"
        yield point("everything", messages, then)


def _not_compared(referenced: bool) -> tuple[str, str]:
    """Return why no numbers of a kernel were compared, and the next step."""
    if referenced:
        return "no case of it came to its end without an error", "correct the errors first"
    return "gpuemu.toml has no reference for it", "give it a reference (register writes an entry and a template)"


def _of_file(finding: Finding, kernel: KernelReport) -> bool:
    """Return whether a finding is about the whole file of a kernel, as an error of the compiler."""
    return finding.kernel is None and finding.place.path == kernel.source


def _step(kernel: KernelReport, reasons: list[Finding], ended: bool) -> str:
    """Return what would let a kernel run."""
    rules = {finding.rule for finding in reasons}
    if ended:
        return "check with a larger budget, or fewer kernels"
    if any(rule.startswith(("compile/", "config/", "reference/")) for rule in rules):
        return "correct what the finding names"
    if not kernel.registered:
        return "register it in gpuemu.toml, with its sizes, or check the file that launches it"
    return "read the finding"


def _changed(targets: Targets) -> list[Json]:
    files = {project.config for project in targets.projects if project.config is not None}
    files |= {request.spec.reference for request in targets.requests if request.spec.reference is not None}
    return [
        {"file": relative(path, targets.root), "state": state} for path, state in sorted(changed_files(files).items())
    ]


CHECK = Tool(
    name="check",
    title="Check kernels",
    description=(
        "Run GPU kernels in an emulator with checkers and compare them with their references. Waits, and ends within "
        "its budget with a verdict: clean, wrong (numbers, limits), unsafe (memory, races, synchronisation) or "
        "not-checked. What did not run is never clean: read did_not_run, also for what a clean kernel was not compared "
        "with. Call it after each edit of a kernel."
    ),
    arguments=record(
        {
            **WHAT,
            "budget": number(f"seconds until the answer (default: {BUDGET})", minimum=1, maximum=MOST_SECONDS),
            "cases": integer(
                "cases per kernel and dtype (default: 8, up to 16 while they are cheap)", minimum=1, maximum=MOST_CASES
            ),
            "arch": text("architecture, for example sm_90"),
        },
        required=(),
    ),
    result=RESULT,
    run=_check,
)
