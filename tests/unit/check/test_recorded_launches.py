"""Checks of unregistered kernels with recorded launches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.recordings import MadeLaunch, record

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

GATHER = """__global__ void gather(const float* x, const int* index, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[index[i]];
}
"""


def gather_launch(n: int, block: int = 64) -> MadeLaunch:
    index = (np.arange(n, dtype=np.int32) * 7) % n
    x = np.linspace(-1, 1, n, dtype=np.float32)
    y = np.zeros(n, np.float32)
    grid = -(-n // block)
    return MadeLaunch((x, index, y, n), grid, block, frozenset({2}), {2: x[index]}, line=4)


def checked(path: Path, **options) -> tuple[list[Finding], KernelReport]:
    (request,) = collect([str(path)], CheckOptions(**options), path.parent).requests
    compiled, located = compiled_request(request)
    results = map(located, check_kernel(compiled))
    *findings, report = (one for one in results if isinstance(one, Finding | KernelReport))
    return [one for one in findings if one.severity is not Severity.HINT], report


@pytest.fixture
def gather(tmp_path: Path) -> Path:
    path = tmp_path / "gather.cu"
    path.write_text(GATHER)
    return path


def test_a_correct_kernel_is_clean_on_its_launches_other_values_and_other_sizes(gather: Path) -> None:
    record(gather, "gather", [gather_launch(100), gather_launch(201)])
    findings, report = checked(gather)
    assert findings == []
    assert report.status == "unreferenced"
    # Two launches, two sets of other values, and at least one other size.
    assert report.cases.run == report.cases.passed >= 5


def test_a_bug_is_an_error_on_its_line_with_the_recorded_sizes(gather: Path) -> None:
    record(gather, "gather", [gather_launch(100)])
    gather.write_text(GATHER.replace("i < n", "i <= n"))
    findings, _ = checked(gather)
    assert {one.severity for one in findings} == {Severity.ERROR}
    assert {(one.rule, one.place.range.start.line) for one in findings} == {("memory/out-of-bounds", 2)}
    assert all("as recorded in gather, gather.cu:4" in one.message for one in findings)


def test_what_only_other_values_show_is_information(gather: Path) -> None:
    gather.write_text(GATHER.replace("y[i] = x[index[i]]", "y[i] = index[0] == 0 ? x[index[i]] : x[index[i] + n]"))
    record(gather, "gather", [gather_launch(100)])
    findings, report = checked(gather)
    assert {one.severity for one in findings} == {Severity.INFORMATION}
    assert all("the recorded run has other values" in one.message for one in findings)
    assert report.status == "unreferenced"


def test_what_only_other_sizes_show_is_an_error_between_recorded_sizes_only(gather: Path) -> None:
    record(gather, "gather", [gather_launch(101), gather_launch(777)])
    for wrong, severity in (("n > 101 && n < 777", Severity.ERROR), ("n < 101", Severity.INFORMATION)):
        gather.write_text(GATHER.replace("x[index[i]]", f"x[index[i] + ({wrong} ? n : 0)]"))
        findings, _ = checked(gather)
        assert {one.severity for one in findings} == {severity}
        assert all("n = " in one.message for one in findings)


def test_other_sizes_are_information_where_all_recorded_ones_fill_their_blocks(gather: Path) -> None:
    record(gather, "gather", [gather_launch(128), gather_launch(768)])
    gather.write_text(GATHER.replace("i < n", "i < (n + 63) / 64 * 64"))
    findings, report = checked(gather)
    assert {one.severity for one in findings} == {Severity.INFORMATION}
    assert report.status == "unreferenced"


def test_other_outputs_since_an_edit_are_information(gather: Path) -> None:
    record(gather, "gather", [gather_launch(100)])
    gather.write_text(GATHER.replace("x[index[i]]", "x[index[i]] + (i == 7)"))
    ((finding), report) = checked(gather)
    (finding,) = finding
    assert (finding.rule, finding.severity) == ("numeric/changed-output", Severity.INFORMATION)
    assert finding.place.range.start.line == 2
    assert finding.data["index"] == [7]
    assert report.status == "unreferenced"


def test_other_rounding_since_an_edit_is_not_a_finding(gather: Path) -> None:
    record(gather, "gather", [gather_launch(100)])
    gather.write_text(GATHER.replace("x[index[i]]", "x[index[i]] * 1.0000001f"))
    assert checked(gather)[0] == []


def test_launches_that_no_longer_fit_are_a_hint(gather: Path) -> None:
    record(gather, "gather", [gather_launch(100)])
    gather.write_text(GATHER.replace("int n)", "long n)"))
    (request,) = collect([str(gather)], CheckOptions(), gather.parent).requests
    findings = [one for one in check_kernel(request) if isinstance(one, Finding)]
    (hint,) = [one for one in findings if one.rule == "config/recording-unused"]
    assert "its parameters are (const float*, const int*, float*, long), and were" in hint.message


def test_a_damaged_recording_is_a_hint(gather: Path) -> None:
    path = record(gather, "gather", [gather_launch(100)])
    path.write_bytes(path.read_bytes()[:200])
    (request,) = collect([str(gather)], CheckOptions(), gather.parent).requests
    findings = [one for one in check_kernel(request) if isinstance(one, Finding)]
    (hint,) = [one for one in findings if one.rule == "config/recording-unused"]
    assert "gather.gpurec is damaged" in hint.message


def test_template_instances_are_those_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "fill.cu"
    path.write_text("""template <typename T, int N>
__global__ void fill(T* y) {
    y[threadIdx.x + N] = T(N);
}
""")
    record(path, "fill<short, 4>", [MadeLaunch((np.zeros(36, np.int16),), 1, 32)])
    findings, report = checked(path)
    assert findings == []
    assert report.cases.run == report.cases.passed >= 1
    path.write_text(path.read_text().replace("threadIdx.x + N]", "threadIdx.x + N + 1]"))
    findings, _ = checked(path)
    assert {(one.rule, one.place.range.start.line) for one in findings} == {("memory/out-of-bounds", 2)}


def test_sorted_integers_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.cu"
    path.write_text("""__global__ void rows(const int* starts, const float* values, float* y, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = starts[i]; k < starts[i + 1]; k++) sum += values[k];
    y[i] = sum;
}
""")
    starts = np.array([0, 3, 3, 9, 10, 20], np.int32)
    values = np.arange(20, dtype=np.float32)
    record(path, "rows", [MadeLaunch((starts, values, np.zeros(5, np.float32), 5), 1, 32)])
    findings, report = checked(path)
    assert findings == []
    assert report.cases.run == report.cases.passed


def test_a_registered_kernel_does_not_use_recordings(gather: Path) -> None:
    record(gather, "gather", [gather_launch(100)])
    (request,) = collect([str(gather)], CheckOptions(), gather.parent).requests
    findings = [one for one in check_kernel(replace(request, registered=True)) if isinstance(one, Finding)]
    assert not any("recorded" in one.message for one in findings)


def test_launches_that_pass_null_are_left_out_for_those_with_a_pointer(tmp_path: Path) -> None:
    path = tmp_path / "shift.cu"
    path.write_text(
        """__global__ void shift(const float* x, const float* offset, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + (offset ? offset[0] : 0);
}
"""
    )
    x, offset = np.linspace(-1, 1, 100, dtype=np.float32), np.ones(1, np.float32)
    rest = (2, 64, frozenset({2}))
    launches = [MadeLaunch((x[:n], offset, x[:n], n), *rest) for n in (70, 100)]
    record(path, "shift", [MadeLaunch((x, None, x, 100), *rest), *launches])
    findings, report = checked(path)
    assert findings == []
    assert report.cases.run == report.cases.passed >= 4


def test_indices_stay_below_a_length_that_no_argument_is(gather: Path) -> None:
    launches = []
    for n in (120, 353):
        x = np.linspace(-1, 1, n - 20, dtype=np.float32)
        index = (np.arange(n) * 7 % (n - 20)).astype(np.int32)
        y = np.zeros(n, np.float32)
        launches.append(MadeLaunch((x, index, y, n), -(-n // 64), 64, frozenset({2}), {2: x[index]}))
    record(gather, "gather", launches)
    findings, report = checked(gather)
    assert findings == []
    assert report.cases.run == report.cases.passed >= 5


def test_sizes_in_a_struct_are_not_changed_with_others(tmp_path: Path) -> None:
    path = tmp_path / "scale.cu"
    path.write_text(
        """struct Info { int sizes[2]; };

__global__ void scale(const float* x, float* y, Info info, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < info.sizes[0]) y[i] = 2 * x[i];
}
"""
    )
    launches = []
    for n in (100, 201):
        x = np.linspace(-1, 1, n, dtype=np.float32)
        sizes = np.array([n, 1], np.int32).tobytes()
        launches.append(MadeLaunch((x, 0 * x, sizes, n), -(-n // 64), 64, frozenset({1}), {1: 2 * x}))
    record(path, "scale", launches)
    findings, report = checked(path)
    assert findings == []
    assert report.cases.run == report.cases.passed >= 4


REDUCE = """enum Kind { SUM, LARGEST };

template <typename T, Kind KIND>
__global__ void reduce(const T* x, float* y, int n) {
    float value = static_cast<float>(x[0]);
    for (int i = 1; i < n; i++) {
        float other = static_cast<float>(x[i]);
        value = KIND == SUM ? value + other : fmaxf(value, other);
    }
    y[0] = value;
}
"""


def reduce_launch(n: int) -> MadeLaunch:
    x, y = np.linspace(-1, 1, n, dtype=np.float16), np.zeros(1, np.float32)
    return MadeLaunch((x, y, n), 1, 1, frozenset({1}), {1: np.ones(1, np.float32)})


def in_python(*sources: str) -> str:
    calls = [f'm{number} = load_inline("m{number}", "", r"""{text}""")' for number, text in enumerate(sources)]
    return "\n".join(["from torch.utils.cpp_extension import load_inline", *calls, ""])


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A module with the kernel in a string, and a recording of an instance that no text names."""
    source, path = tmp_path / "cuda.cu", tmp_path / "model.py"
    source.write_text(REDUCE)
    path.write_text(in_python(REDUCE))
    record(source, "reduce<c10::Half, (Kind)1>", [reduce_launch(50)], module=path)
    source.unlink()
    return path


def test_a_kernel_in_a_string_is_checked_with_the_instance_that_was_recorded(module: Path) -> None:
    findings, report = checked(module)
    assert findings == []
    assert (report.status, report.compiled) == ("unreferenced", True)
    assert report.cases.run == report.cases.passed >= 3
    module.write_text(in_python(REDUCE.replace("i < n", "i <= n")))
    findings, _ = checked(module)
    line = module.read_text().split("static_cast<float>(x[i])")[0].count("\n")
    assert {(one.rule, one.severity, one.place.range.start.line) for one in findings} == {
        ("memory/out-of-bounds", Severity.ERROR, line)
    }


def test_kernels_of_one_name_in_two_strings_are_not_confused(module: Path) -> None:
    module.write_text(in_python(REDUCE, REDUCE.replace("value + other", "value * other")))
    requests = collect([str(module)], CheckOptions(), module.parent).requests
    assert len(requests) == 2
    for request in requests:
        findings = [one for one in check_kernel(compiled_request(request)[0]) if isinstance(one, Finding)]
        (unused,) = [one for one in findings if one.rule == "config/recording-unused"]
        assert "several strings of the file have a kernel of this name" in unused.message
