"""The check of one kernel from its source to its report, with the real compiler, emulator and reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.check_project import CU, REFERENCE, TOML, request, run

from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions


def test_a_correct_kernel_passes_with_only_a_hint(tmp_path: Path) -> None:
    report, findings, stages = run(request(tmp_path))
    assert (report.status, report.compiled, report.cases.run, report.cases.passed) == ("passed", True, 16, 16)
    assert [finding.rule for finding in findings] == ["config/launch-inferred"]
    assert stages[0] == "compile" and {"reference", "execute"} <= set(stages)
    assert report.resources["sm_80"].registers > 0
    assert 0 <= (report.worst or 0.0) < 1


def test_no_more_than_nine_costly_cases_run_without_a_requested_number(tmp_path: Path) -> None:
    toml = TOML + "[kernels.dims]\nn = { min = 30000, max = 40000 }\n"
    assert run(request(tmp_path, toml=toml))[0].cases.run == 9
    assert run(request(tmp_path, toml=toml, cases=12))[0].cases.run == 12


@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ("2.0f", "2.001f", "numeric/tolerance-exceeded", 2),
        ("if (i < n) ", "", "memory/out-of-bounds", 2),
        ("if (i < n) ", "if (i + 1 < n) ", "numeric/unwritten-output", 0),
        ("2.0f * x[i]", "2.0f * x[i] / (i != 1)", "numeric/inf", 2),
        ("2.0f * x[i]", "2.0f * sqrtf(x[i] * x[i] - 0.0f) * (i == 2 ? NAN : 1.0f)", "numeric/nan", 2),
        ("    if", "    while (n > 0 && i == 1) {}\n    if", "sync/hang", None),
        ("    if", "    assert(n < 2);\n    if", "sync/trap", 2),
    ],
)
def test_a_planted_bug_is_reported_on_its_line(tmp_path: Path, old: str, new: str, rule: str, line: int | None) -> None:
    text = CU.replace(old, new, 1)
    assert text != CU
    report, findings, _ = run(request(tmp_path, "#include <cassert>\n" + text, case_seconds=2.0))
    matching = [finding for finding in findings if finding.rule == rule]
    assert matching, findings
    assert line is None or matching[0].place.range.start.line == line + 1
    assert report.status == "failed" and report.cases.passed < report.cases.run


def test_a_launch_that_takes_too_long_is_not_executed_and_no_case_of_it_passes(tmp_path: Path) -> None:
    loop = "    float s = 0;\n    for (long long j = 0; j < n * 1000000000ll; ++j) s = s * 0.5f + j;\n"
    slow = CU.replace("    if", f"{loop}    if", 1).replace("2.0f * x[i]", "2.0f * x[i] + (s == 7.0f)")
    report, findings, _ = run(request(tmp_path, slow, case_seconds=0.2))
    assert (report.status, report.cases.passed) == ("not-executed", 0)
    (finding,) = [one for one in findings if one.severity != "hint"]
    assert (finding.rule, finding.severity) == ("engine/not-executed", "warning")
    assert "this loop did not come to its end in 0.2 s" in finding.message


def test_without_a_reference_a_clean_kernel_is_unreferenced(tmp_path: Path) -> None:
    toml = '[[kernels]]\nname = "twice"\nsource = "twice.cu"\n'
    report, findings, _ = run(request(tmp_path, toml=toml))
    assert report.status == "unreferenced"
    assert not [finding for finding in findings if finding.severity in ("error", "warning")]


def test_an_untrusted_workspace_compiles_and_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    reference = f"open({str(marker)!r}, 'w')\n{REFERENCE}"
    report, findings, _ = run(request(tmp_path, reference=reference, execute=False))
    assert (report.status, report.compiled, report.cases.run) == ("not-executed", True, 0)
    assert "engine/not-executed" in [finding.rule for finding in findings]
    assert not marker.exists()


def test_unsaved_text_takes_precedence_over_the_file(tmp_path: Path) -> None:
    made = request(tmp_path)
    report, findings, _ = run(replace(made, text=CU.replace("2.0f", "3.0f")))
    assert report.status == "failed"
    assert findings[-1].rule == "numeric/tolerance-exceeded"


def test_the_same_seed_gives_the_same_findings(tmp_path: Path) -> None:
    made = request(tmp_path, CU.replace("2.0f *", "2.01f *"), seed=7, seed_given=True)
    assert run(made)[1] == run(made)[1]


def test_a_stored_failure_is_replayed_first_and_marked_as_fixed_when_it_passes(tmp_path: Path) -> None:
    root = str(tmp_path)
    broken = request(tmp_path, CU.replace("2.0f *", "i == 17 ? 5.0f : 2.0f *"), store_root=root)
    assert run(broken)[0].status == "failed"
    stored = {item.case for item in Store(root).failures()}
    again, repeated, _ = run(replace(broken, options=replace(broken.options, seed=99, seed_given=True)))
    assert again.first_failure == 1
    assert repeated[-1].case in stored
    fixed, clean, _ = run(request(tmp_path, store_root=root, seed=5, seed_given=True))
    assert fixed.status == "passed", clean
    assert fixed.cases.run > 8


def test_a_strategy_of_one_dtype_without_such_an_instance_is_reported(tmp_path: Path) -> None:
    made = request(tmp_path)
    alone = replace(made, options=replace(made.options, strategy="single_dtype_f16"))
    report, findings, _ = run(alone)
    assert report.status == "not-executed"
    assert any(f.rule == "engine/not-executed" and "float16" in f.message for f in findings)
    report, findings, _ = run(replace(made, options=replace(made.options, strategy="single_dtype_f32")))
    assert report.status == "passed"


def test_with_no_time_left_one_case_still_runs(tmp_path: Path) -> None:
    made = request(tmp_path)
    report, _, _ = run(replace(made, options=replace(made.options, cases=100_000, seconds=1e-9)))
    assert report.status == "passed" and report.cases.run == 1


def test_cases_that_the_time_of_an_unregistered_kernel_leaves_out_are_reported(tmp_path: Path) -> None:
    text = "__global__ void one(float* x) { x[threadIdx.x] = 1; }\n"
    text += "int main() { float* x; cudaMalloc(&x, 512); one<<<1, 128>>>(x); cudaDeviceSynchronize(); }\n"
    (tmp_path / "one.cu").write_text(text)
    (made,) = collect([str(tmp_path / "one.cu")], CheckOptions(cases=4, seconds=1e-9), tmp_path).requests
    report, findings, _ = run(made)
    assert report.cases.run == 1
    assert any("'one' ran on 1 case only" in finding.message for finding in findings)


def test_a_dtype_whose_turn_comes_too_late_is_said_not_to_have_run(tmp_path: Path) -> None:
    text = "template <class T> __global__ void two(T* x) { x[threadIdx.x] = 1; }\n"
    text += "int main() { float* x; double* y; cudaMalloc(&x, 512); cudaMalloc(&y, 1024);\n"
    text += "  two<<<1, 128>>>(x); two<<<1, 128>>>(y); cudaDeviceSynchronize(); }\n"
    (tmp_path / "two.cu").write_text(text)
    (made,) = collect([str(tmp_path / "two.cu")], CheckOptions(cases=2, seconds=1e-9), tmp_path).requests
    report, findings, _ = run(made)
    assert report.cases.run == 1 and report.status == "unreferenced"
    assert sum("The check of 'two' did not finish" in finding.message for finding in findings) == 1
    report, findings, _ = run(replace(made, options=CheckOptions(cases=2)))
    assert report.cases.run == 4 and not any("did not finish" in finding.message for finding in findings)
