"""The corpus in the complete check: every planted bug is found on its line, and no correct kernel has a false positive.

``GPUEMU_SEEDS`` (default 2) and ``GPUEMU_CASES`` (of correct kernels; default: as many as on save) increase the number
of runs; ``python -m benchmarks.evidence`` makes the full table. A planted bug must be found within 32 cases; most need
one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.corpus import CORPUS, FOLDERS, corpus_projects, triton_projects
from support.expectations import read_expectations

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import RULES
from gpuemu_lsp.engine.subjects.request import DEFAULT_CASES, CheckOptions, CheckRequest

PROJECTS = corpus_projects()
KERNELS = [spec for project in PROJECTS for spec in project.kernels]
SEEDS = tuple(range(1, 1 + int(os.environ.get("GPUEMU_SEEDS", "2"))))
CASES = int(os.environ.get("GPUEMU_CASES", str(DEFAULT_CASES)))
CASES_FOR_BUGS = 32

PLANTED = [spec for spec in KERNELS if spec.name.endswith("_buggy")]
CORRECT = [spec for spec in KERNELS if not spec.name.endswith("_buggy")]

pytestmark = pytest.mark.quality


def check(spec: KernelSpec, cases: int, seed: int, strategy: str = "quick") -> tuple[list[Finding], KernelReport]:
    options = CheckOptions(cases=cases, seed=seed, seed_given=True, strategy=strategy)
    events = list(check_kernel(CheckRequest(spec, options, root=CORPUS.as_posix())))
    reports = [event for event in events if isinstance(event, KernelReport)]
    assert len(reports) == 1
    return [event for event in events if isinstance(event, Finding)], reports[0]


def listed(findings: list[Finding]) -> str:
    return "\n".join(
        f"{Path(finding.place.path).name}:{finding.place.range.start.line + 1}: {finding.rule}: {finding.message} "
        f"[case {finding.case} {dict(finding.dims)}]"
        for finding in findings
    )


@pytest.mark.parametrize("spec", PLANTED, ids=lambda spec: spec.name)
def test_a_planted_bug_is_found_on_its_line(spec: KernelSpec) -> None:
    expectations = read_expectations(Path(spec.source))
    for seed in SEEDS:
        findings, report = check(spec, CASES_FOR_BUGS, seed)
        assert report.compiled
        others = [finding for finding in findings if finding.rule.startswith(("engine/", "config/", "reference/"))]
        assert not others, listed(others)
        if expectations.required:
            assert report.status == "failed", f"seed {seed}: nothing was found"
            assert expectations.found(findings), f"seed {seed}:\n{listed(findings)}"


@pytest.mark.parametrize("spec", CORRECT, ids=lambda spec: spec.name)
def test_a_correct_kernel_has_no_false_positive(spec: KernelSpec) -> None:
    waiting = {rule for claim in read_expectations(Path(spec.source)).pending for rule in claim.rules}
    for seed in SEEDS:
        for strategy in ("quick", "adversarial"):
            findings, report = check(spec, CASES, seed, strategy)
            reported = [finding for finding in findings if finding.severity in (Severity.ERROR, Severity.WARNING)]
            if waiting and {finding.rule for finding in reported} == waiting:
                assert report.status == "not-executed"  # an unsupported instruction is reported and never clean
                continue
            assert not reported, f"seed {seed}, {strategy}:\n{listed(reported)}"
            assert report.status == "passed"
            assert report.cases.run == report.cases.passed >= CASES * max(1, len(spec.dtypes or ()))


def test_the_configuration_has_no_findings() -> None:
    for project in PROJECTS:
        assert project.kernels and not project.findings and not project.broken
    assert len({spec.name for spec in KERNELS}) == len(KERNELS)


@pytest.mark.parametrize("arguments", [["kernels"], [str(CORPUS)], [str(CORPUS / folder) for folder in FOLDERS]])
def test_a_folder_of_projects_has_all_of_their_kernels(arguments: list[str]) -> None:
    targets = collect(arguments, CheckOptions(), CORPUS.parent)
    triton = [spec for project in triton_projects() for spec in project.kernels] if len(arguments) == 1 else []
    assert all(request.registered for request in targets.requests)
    assert sorted(request.spec.name for request in targets.requests) == sorted(spec.name for spec in KERNELS + triton)


def test_every_file_is_registered_once() -> None:
    registered = sorted(spec.source for spec in KERNELS)
    assert registered == sorted(path.as_posix() for path in CORPUS.rglob("*.cu"))


def test_every_file_states_its_findings() -> None:
    for spec in KERNELS:
        expectations = read_expectations(Path(spec.source))
        claims = expectations.required + expectations.pending
        assert expectations.clean == (spec in CORRECT), spec.name
        assert bool(claims) or spec in CORRECT, spec.name
        assert not (expectations.required and spec in CORRECT), spec.name
        assert all(rule in RULES for claim in claims for rule in claim.rules), spec.name


def test_every_planted_bug_has_a_correct_counterpart() -> None:
    """Same reference, same arguments: only the code differs."""
    correct = {(spec.reference, spec.reference_function) for spec in CORRECT}
    alone = [spec.name for spec in PLANTED if (spec.reference, spec.reference_function) not in correct]
    assert not alone
