"""The Triton corpus: planted bugs are found on their lines, correct kernels have no finding.

One seed, and a part of the kernels that has every kind of bug; ``GPUEMU_CORPUS=all`` runs all of them, and
``python -m benchmarks.triton_evidence`` many seeds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.triton_evidence import check, shown
from gpuemu_lsp.engine.rules import RULES
from tests.support.corpus import CORPUS, triton_projects
from tests.support.expectations import read_expectations

PROJECTS = triton_projects()
KERNELS = {spec.name: spec for project in PROJECTS for spec in project.kernels}
PART = [
    "triton_softmax",
    "triton_softmax_buggy",
    "triton_flash_attention",
    "triton_flash_attention_buggy",
    "triton_load_unmasked_buggy",
    "triton_grid_rounded_down_buggy",
    "triton_split_k",
    "triton_split_k_stores_buggy",
    "triton_two_passes_buggy",
    "triton_not_zeroed_buggy",
    "triton_dropout",
    "triton_locked_sum",
    "triton_lock_released_early_buggy",
    "triton_last_program",
    "triton_counter_relaxed_buggy",
    "triton_shifted_tail",
    "triton_few_lanes",
    "triton_wait_for_flag",
    "triton_descriptors",
]
CHOSEN = list(KERNELS) if os.environ.get("GPUEMU_CORPUS") == "all" else PART


@pytest.mark.parametrize("name", CHOSEN)
def test_findings_are_those_that_the_file_announces(name):
    spec = KERNELS[name]
    expectations = read_expectations(Path(spec.source))
    findings, reports = check(spec, seed=1, cases=8, expectations=expectations)
    assert all(report.compiled for report in reports), findings
    if expectations.clean:
        assert not shown(findings, expectations)
        assert all(report.status == "passed" and report.cases.run for report in reports)
    else:
        assert shown(findings, expectations), findings


def test_every_file_is_registered_once_and_states_its_findings():
    assert not any(project.findings or project.broken for project in PROJECTS)
    assert sorted(spec.source for spec in KERNELS.values()) == sorted(
        path.as_posix() for path in (CORPUS / "triton").rglob("*.py")
    )
    for spec in KERNELS.values():
        expectations = read_expectations(Path(spec.source))
        planted = spec.name.endswith("_buggy")
        assert expectations.clean != planted and bool(expectations.required) == planted, spec.name
        assert all(rule in RULES for claim in expectations.required for rule in claim.rules), spec.name
