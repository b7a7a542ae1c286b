"""A kernel whose translation takes too long: `engine/timeout` on its name in every kind of check, never clean."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.processes import children, workers

from gpuemu_lsp.engine.check.model import KernelReport, MinimisedFailure, Replay
from gpuemu_lsp.engine.check.policies.unregistered_time import left_to_other_instances
from gpuemu_lsp.engine.check.replay import replay
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.stored.minimise import minimise_case
from gpuemu_lsp.engine.jobs.table import FUNCTIONS
from gpuemu_lsp.engine.shrink import ShrinkBudget
from gpuemu_lsp.engine.store import Failure, Store
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.pool import Pool

LIMIT = CheckOptions(cases=2, translate_seconds=0.05)
PROJECT = """
[[kernels]]
name = "k"
source = "k.cu"
[kernels.dims]
n = { min = 1, max = 64 }
[kernels.args]
x = { inout = ["n"] }
n = "n"
[kernels.launch]
grid = [1]
block = [64]
"""


def long_source(statements: int) -> str:
    """Return a kernel of one PTX instruction per statement, which the compiler does not fold."""
    lines = [f'  asm volatile("mad.lo.s32 %0, %0, {2 * n + 3}, {n};" : "+r"(v));' for n in range(statements)]
    body = "\n".join(["  int v = threadIdx.x;", *lines, "  if (v < n) x[v] = v;"])
    return f'extern "C" __global__ void k(int* x, int n) {{\n{body}\n}}\n'


@pytest.fixture(scope="module")
def source() -> str:
    return long_source(4_000)


def requests(folder: Path, source: str, *, registered: bool) -> list[CheckRequest]:
    launch = "" if registered else "void run(int* x, int n) { k<<<1, 64>>>(x, n); }\n"
    (folder / "k.cu").write_text(source + launch)
    if registered:
        (folder / "gpuemu.toml").write_text(PROJECT)
    found = collect([str(folder / "k.cu")], LIMIT, folder).requests
    return [replace(request, root=str(folder)) for request in found]


def check(asked: list[CheckRequest], pool: Pool) -> tuple[KernelReport, list[Finding]]:
    run = run_requests(asked, (), asked[0].root, pool)
    return run.kernels[0], list(run.findings)


def test_a_registered_kernel_times_out_on_its_name_and_the_worker_lives(tmp_path: Path, source: str) -> None:
    with Pool(FUNCTIONS, size=1) as pool:
        report, findings = check(requests(tmp_path, source, registered=True), pool)
        assert report.status == "error" and not report.cases.run
        (finding,) = [one for one in findings if one.rule == "engine/timeout"]
        assert finding.place.range.start.line == 0
        assert "PTX instructions took longer than 0.05 s" in finding.message
        (worker,) = workers(os.getpid())
        assert not children(worker)
        small = requests(tmp_path, long_source(2), registered=True)
        small = [replace(one, options=replace(one.options, translate_seconds=60.0)) for one in small]
        report, findings = check(small, pool)
        assert report.cases.run, findings
        assert workers(os.getpid()) == {worker}


def test_an_unregistered_kernel_is_not_checked(tmp_path: Path, source: str) -> None:
    with Pool(FUNCTIONS, size=1) as pool:
        report, findings = check(requests(tmp_path, source, registered=False), pool)
    assert report.status == "not-executed"
    (finding,) = [one for one in findings if one.rule == "engine/not-executed"]
    assert finding.severity is Severity.HINT
    assert "took longer than 0.05 s" in finding.message
    # Where another instance of the kernel has run, it is a part that was not checked.
    assert left_to_other_instances(finding).rule == "config/launch-inferred"
    other = replace(finding, cause=None)
    assert left_to_other_instances(other) is other


def test_a_replay_and_a_minimisation_time_out_too(tmp_path: Path, source: str) -> None:
    (request,) = requests(tmp_path, source, registered=True)
    failure = Failure("k", "int32", "memory/out-of-bounds", "", CaseKey(1, "default", {"n": 8}), {"n": 8})
    *_, replayed = replay(request, failure, failure.case)
    assert isinstance(replayed, Replay)
    assert replayed.verdict == "not executed", replayed.findings
    assert [one.rule for one in replayed.findings] == ["engine/timeout"], replayed.findings
    with Store(tmp_path) as store:
        *_, minimised = minimise_case(request, failure, failure.case, "all", ShrinkBudget(10), store)
    assert isinstance(minimised, MinimisedFailure)
    assert minimised.case is None and minimised.replay.verdict == "not executed"
