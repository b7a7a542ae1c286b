"""The deep check's second pass finds what the optimiser removes, and no false positives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport, Replay
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.replay import replay
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

# Every thread reads back its own value: the optimiser keeps it in a register, and the shared word is gone.
ONE_WORD = """__global__ void k(const float* x, float* y, int n) {
    __shared__ float scale[SIZE];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        scale[SLOT] = x[i];
        y[i] = 2.0f * scale[SLOT];
    }
}
"""
# Objects with padding, an empty class and bit fields are copied whole.
OBJECTS = """struct Empty {};
struct Padded { char kind; int value; };
struct Bits { unsigned low : 3, high : 5; };
__device__ Padded make(Empty, int value) { Padded made; made.kind = 1; made.value = value; return made; }
__global__ void k(const int* x, int* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Empty empty;
    Padded one = make(empty, x[i]), other;
    other = one;
    Padded several[2] = {other, one};
    Bits bits;
    bits.low = 5; bits.high = i;
    Bits copy = bits;
    y[i] = several[i & 1].value + copy.low + copy.high;
}
"""


def request_for(folder: Path, text: str, **options: object) -> CheckRequest:
    path = folder / "k.cu"
    path.write_text(text)
    (request,) = collect([str(path)], CheckOptions(cases=2), folder).requests
    return replace(request, root=str(folder), options=replace(request.options, **options))  # type: ignore[arg-type]


def check(request: CheckRequest) -> tuple[KernelReport, list[Finding]]:
    events = list(check_kernel(request))
    assert isinstance(events[-1], KernelReport)
    return events[-1], [event for event in events if isinstance(event, Finding) and event.severity is Severity.ERROR]


@pytest.fixture
def racy() -> str:
    return ONE_WORD.replace("SIZE", "1").replace("SLOT", "0")


def test_a_race_the_optimiser_removes_is_found_on_its_line(tmp_path, racy):
    report, errors = check(request_for(tmp_path, racy))
    assert (report.status, errors) == ("unreferenced", [])
    report, errors = check(request_for(tmp_path, racy, unoptimized=True))
    assert report.status == "failed"
    assert {finding.rule for finding in errors} == {"memory/shared-race"}
    assert {finding.place.range.start.line for finding in errors} <= {4, 5}
    assert all(finding.data["optimize"] is False and "unoptimised" in finding.message for finding in errors)


def test_a_warning_of_optimised_code_hides_no_error_of_the_same_rule(tmp_path, racy):
    # A plain read before an atomic is a warning at every optimisation level.
    checked = racy.replace("    const int i", "    __shared__ int most;\n    const int i").replace(
        "    if (i < n) {",
        "    if (threadIdx.x == 0) most = -1;\n    __syncthreads();\n"
        "    if (i < n) {\n        if (most < i) atomicMax(&most, i);",
    )
    request = request_for(tmp_path, checked, unoptimized=True)
    found = [event for event in check_kernel(request) if isinstance(event, Finding)]
    races = [finding for finding in found if finding.rule == "memory/shared-race"]
    line = checked.split("\n").index("        scale[0] = x[i];")
    warned = {finding.place.range.start.line for finding in races if finding.severity is Severity.WARNING}
    failed = {finding.place.range.start.line for finding in races if finding.severity is Severity.ERROR}
    assert warned == {line - 1} and failed and failed <= {line, line + 1}


def test_its_correct_counterpart_has_no_finding(tmp_path):
    correct = ONE_WORD.replace("SIZE", "1024").replace("SLOT", "threadIdx.x")
    report, errors = check(request_for(tmp_path, correct, unoptimized=True))
    assert (report.status, errors) == ("unreferenced", [])


def test_copies_of_partly_initialised_objects_are_not_reads(tmp_path):
    report, errors = check(request_for(tmp_path, OBJECTS, unoptimized=True))
    assert (report.status, errors) == ("unreferenced", [])


def test_a_stored_case_is_replayed_at_its_optimisation_level_only(tmp_path, racy):
    request = request_for(tmp_path, racy, unoptimized=True, store_root=str(tmp_path))
    check(request)
    with Store(tmp_path) as store:
        (stored, *_) = store.failures()
    assert not stored.failure.optimized
    *_, again = replay(request, stored.failure, stored.case)
    assert isinstance(again, Replay) and again.verdict == "still fails"
    quick, errors = check(replace(request, options=replace(request.options, unoptimized=False)))
    assert (quick.status, errors) == ("unreferenced", [])
    with Store(tmp_path) as store:
        assert [item.fixed for item in store.failures()] == [False] * len(store.failures())


def test_a_second_pass_cut_short_by_time_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuemu_lsp.engine.check.unoptimized._SECONDS", 0.0)
    correct = ONE_WORD.replace("SIZE", "1024").replace("SLOT", "threadIdx.x")
    request = replace(request_for(tmp_path, correct, unoptimized=True), registered=True)
    events = list(check_kernel(request))
    assert isinstance(events[-1], KernelReport) and events[-1].status == "unreferenced"
    reports = [event.message for event in events if isinstance(event, Finding) and event.rule == "engine/not-executed"]
    assert any("only 1 of 8 cases ran within the time limit" in message for message in reports), reports
