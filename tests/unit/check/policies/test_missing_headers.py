"""Missing headers: their consequences are one finding on the include, and all other errors stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.not_executed import reason_groups
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

BODY = "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }\n"
PLAIN = "__global__ void plain(const float* x, float* y, int n) " + BODY
ALIEN = "__global__ void alien(const widget_t* x, widget_t* y, int n) " + BODY


def checked(folder: Path, text: str, toml: str = "") -> tuple[KernelReport, list[Finding]]:
    """Check the first kernel of a file, and only compile it."""
    (folder / "one.cu").write_text(text)
    if toml:
        (folder / "gpuemu.toml").write_text(toml)
    request = collect([] if toml else [str(folder / "one.cu")], CheckOptions(cases=1), folder).requests[0]
    events = list(check_kernel(_compiled_only(request)))
    assert isinstance(events[-1], KernelReport)
    return events[-1], [event for event in events if isinstance(event, Finding)]


def _compiled_only(request: CheckRequest) -> CheckRequest:
    return replace(request, options=replace(request.options, execute=False, store_root=None))


def errors(findings: list[Finding]) -> list[tuple[str, int]]:
    return [(item.rule, item.place.range.start.line) for item in findings if item.severity is Severity.ERROR]


def hints(findings: list[Finding]) -> list[Finding]:
    return [item for item in findings if item.rule == "engine/not-executed" and item.message.startswith("Not checked")]


@pytest.mark.parametrize(
    "include", ["<widget.h>", '"vendor/widget.h"', "<torch/extension.h> // and\nusing namespace at;"]
)
def test_a_missing_header_is_one_hint_on_its_include(tmp_path, include):
    report, findings = checked(tmp_path, f"#include {include}\n{ALIEN}__device__ widget_t w;\n")
    include = include.split(" ")[0]
    (hint,) = hints(findings)
    assert errors(findings) == []
    assert (hint.severity, hint.place.range.start.line) == (Severity.HINT, 0)
    assert include.strip('<">') in hint.message and "`widget_t`" in hint.message
    assert (report.status, report.compiled) == ("not-executed", False)


def test_a_header_of_pytorch_declares_only_names_of_pytorch(tmp_path):
    report, findings = checked(tmp_path, f"#include <torch/extension.h>\n{ALIEN}")
    assert errors(findings) == [("compile/error", 1)] * 2 and report.status == "error"
    text = "#include <torch/extension.h>\n" + PLAIN.replace("x[i]", "x[i] + {name}")
    for name in ("at::unknown", "AT_LIMIT", "SOME_MACRO"):
        report, findings = checked(tmp_path, text.replace("{name}", name))
        assert (errors(findings), len(hints(findings)), report.status) == ([], 1, "not-executed"), name


def test_the_body_of_a_function_with_a_broken_head_has_no_errors(tmp_path):
    """Without its macros the head of a kernel is not a declaration, and its body is parsed at file scope."""
    kernel = "__global__ void __launch_bounds__(SIZE) alien(widget_t *x, widget_t *y, int n)\n" + BODY
    kernel = kernel.replace("if (i < n)", "\n#pragma unroll\nfor (int j = 0; j < 4; j++)")
    _, findings = checked(tmp_path, f"#include <widget.h>\n{kernel}\n#define LAST\n")
    assert [item for item in findings if item.rule.startswith("compile/")] == []
    assert len(hints(findings)) == 1


def test_a_registered_kernel_without_its_header_has_not_passed(tmp_path):
    toml = '[[kernels]]\nname = "alien"\nsource = "one.cu"\n'
    report, findings = checked(tmp_path, f"#include <widget.h>\n{ALIEN}", toml)
    (warning,) = hints(findings)
    assert (warning.severity, report.status, errors(findings)) == (Severity.WARNING, "not-executed", [])


def test_an_unknown_name_stays_an_error_where_all_headers_are_there(tmp_path):
    (tmp_path / "own.h").write_text("#pragma once\n")
    report, findings = checked(tmp_path, f'#include <cstdio>\n#include "own.h"\n{ALIEN}')
    assert ("compile/error", 2) in errors(findings) and not hints(findings)
    assert report.status == "error"


def test_a_library_of_the_host_explains_only_names_like_its_own(tmp_path):
    head = "#include <cudnn.h>\n__device__ {}\n"
    assert errors(checked(tmp_path, head.format("cudnnHandle_t h;") + PLAIN)[1]) == []
    assert errors(checked(tmp_path, head.format("wigdet_t h;") + PLAIN)[1]) == [("compile/error", 1)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # in a function without an unknown name no header explains a syntax error, whatever else is unknown
        (PLAIN.replace("y[i] = x[i];", "y[i] = x[i]"), 1),
        (ALIEN + PLAIN.replace("= x[i];", "= * ;"), 2),
        (ALIEN + PLAIN.replace("y[i] = x[i]", "y = i"), 2),
    ],
)
def test_an_error_elsewhere_stays_an_error_next_to_a_missing_header(tmp_path, text, line):
    _, findings = checked(tmp_path, "#include <widget.h>\n" + text)
    assert errors(findings) == [("compile/error", line)]


def test_an_error_that_no_header_explains_stays_an_error(tmp_path):
    text = "#include <widget.h>\n" + PLAIN.replace("y[i] = x[i]", "y = i")
    assert errors(checked(tmp_path, text)[1]) == [("compile/error", 1)]


REGISTERED = '[[kernels]]\nname = "plain"\nsource = "one.cu"\n'


@pytest.mark.parametrize(
    ("include", "toml", "severity"),
    [
        ('"my_kernels_common.h"', REGISTERED, Severity.WARNING),
        ('"../common/utils.cuh"', REGISTERED, Severity.WARNING),
        ('"my_kernels_common.h"', "", Severity.HINT),
        ("<widget.h>", REGISTERED, Severity.HINT),
        ("<widget.h>", "", Severity.HINT),
    ],
)
def test_a_missing_header_that_nothing_needs_is_reported_on_its_include(tmp_path, include, toml, severity):
    report, findings = checked(tmp_path, f"// A comment.\n#include {include}\n{PLAIN}", toml)
    (found,) = [item for item in findings if item.rule == "compile/missing-header"]
    assert (found.severity, found.place.range.start.line, report.compiled) == (severity, 1, True)
    assert include.strip('"<>') in found.message and "include_dirs" in found.message
    assert (errors(findings), hints(findings)) == ([], [])


def test_a_header_that_is_found_or_known_is_not_reported(tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "own.h").write_text("#pragma once\n")
    known = "#include <vector>\n#include <cuda_runtime.h>\n#include <torch/extension.h>\n#include <mma.h>\n"
    toml = REGISTERED + 'include_dirs = ["inc"]\n'
    _, findings = checked(
        tmp_path, f'{known}#include <stdio.h>\n#include "own.h"\n#include <cublas_v2.h>\n{PLAIN}', toml
    )
    assert [item for item in findings if item.rule == "compile/missing-header"] == []


def test_the_unknown_names_of_a_missing_header_are_consequences_of_it(tmp_path):
    toml = REGISTERED.replace("plain", "alien")
    report, findings = checked(tmp_path, f'#include "my_widget.h"\n{ALIEN}', toml)
    (found,) = [item for item in findings if item.severity in (Severity.ERROR, Severity.WARNING)]
    assert (found.rule, found.place.range.start.line, report.status) == ("engine/not-executed", 0, "not-executed")
    assert 'header "my_widget.h" was not found' in found.message and found.data["names"] == ["widget_t"]


def test_a_header_missing_in_a_header_is_reported_on_its_include(tmp_path):
    (tmp_path / "own.h").write_text("#pragma once\n#include <widget.h>\nstruct Own { widget_t a; };\n")
    text = '#include "own.h"\n' + ALIEN.replace("widget_t", "Own")
    _, findings = checked(tmp_path, text)
    (hint,) = hints(findings)
    assert (errors(findings), Path(hint.place.path).name, hint.place.range.start.line) == ([], "own.h", 1)


def test_a_library_that_nvrtc_cannot_compile_is_not_the_users_mistake(tmp_path):
    text = "#include <thrust/sort.h>\n" + PLAIN.replace("if (i < n)", "thrust::sort(thrust::seq, y, y + n); if (i < n)")
    report, findings = checked(tmp_path, text)
    (hint,) = hints(findings)
    assert (errors(findings), hint.place.range.start.line, report.status) == ([], 0, "not-executed")


def test_a_template_of_a_library_used_wrongly_is_an_error_on_the_users_line(tmp_path):
    text = (
        "#include <cub/block/block_reduce.cuh>\nstruct Opaque { int* p; };\n__global__ void plain(Opaque* x) {\n"
        "  using Reduce = cub::BlockReduce<Opaque, 64>;\n  __shared__ typename Reduce::TempStorage kept;\n"
        "  x[0] = Reduce(kept).Sum(x[threadIdx.x]);\n}\n"
    )
    assert errors(checked(tmp_path, text)[1]) == [("compile/error", 5)]


def test_device_runtime_is_one_hint(tmp_path):
    calls = "cudaStream_t s; cudaStreamCreateWithFlags(&s, 0); cudaStreamDestroy(s); if (i < n)"
    _, findings = checked(tmp_path, PLAIN.replace("if (i < n)", calls))
    assert errors(findings) == [] and len(hints(findings)) <= 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("const float a = 0.5f;\nconst float b = -a;\n" + PLAIN.replace("= x[i]", "= b * x[i]"), "constexpr"),
        (
            "texture<float, 1> image;\n" + PLAIN.replace("= x[i]", "= tex1Dfetch(image, i)"),
            "texture references like `image`",
        ),
    ],
)
def test_limits_of_nvrtc_are_reported(tmp_path, text, expected):
    report, findings = checked(tmp_path, text)
    (hint,) = hints(findings)
    assert (errors(findings), report.status) == ([], "not-executed")
    assert expected in hint.message


def test_a_device_variable_with_a_dynamic_value_is_an_error(tmp_path):
    text = "__device__ float f() { return 1; }\n__device__ float b = f();\n" + PLAIN.replace("= x[i]", "= b")
    assert errors(checked(tmp_path, text)[1]) == [("compile/error", 1)]


def test_element_types_of_cufft_are_known(tmp_path):
    text = "#include <cufft.h>\n#include <cufftXt.h>\n" + ALIEN.replace("widget_t", "cufftComplex")
    report, findings = checked(tmp_path, text)
    assert (report.compiled, errors(findings)) == (True, [])


GUESSED = """\
struct State { int n; };
__device__ float next(State& s) { return s.n++; }
template <typename T, typename S>
__global__ void drawn(T* y, S* states, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = next(states[i]);
}
"""


def test_errors_of_a_guessed_instance_are_a_hint(tmp_path):
    report, findings = checked(tmp_path, GUESSED)
    (hint,) = [item for item in findings if item.rule == "engine/not-executed"]
    assert errors(findings) == []
    assert (hint.severity, hint.place.range.start.line) == (Severity.HINT, 5) and "drawn<float, float>" in hint.message
    assert (report.status, report.compiled) == ("not-executed", False)


@pytest.mark.parametrize(
    ("good", "bad", "line"), [("i < n)", "i < m)", 5), ("int i =", "int i", 4), ("blockDim.x", "blockDim.q", 4)]
)
def test_errors_of_a_template_that_any_instance_has_stay_errors(tmp_path, good, bad, line):
    _, findings = checked(tmp_path, GUESSED.replace(good, bad))
    assert ("compile/error", line) in errors(findings)


def test_an_instance_named_by_a_launch_is_not_a_guess(tmp_path):
    launch = "void go(float* y, float* s, int n) { drawn<float, float><<<n / 64, 64>>>(y, s, n); }\n"
    _, findings = checked(tmp_path, GUESSED + launch)
    assert ("compile/error", 5) in errors(findings)


def test_a_limit_of_nvrtc_in_a_header_is_the_reason_of_the_kernel(tmp_path):
    """The finding is in the header, and says which file it is about: the list of reasons needs that."""
    (tmp_path / "scale.h").write_text("const float size = 3.0f;\nconst float scale = 1.0f / size;\n")
    report, findings = checked(tmp_path, '#include "scale.h"\n' + PLAIN.replace("x[i]", "x[i] * scale"))
    (hint,) = hints(findings)
    assert hint.place.path.endswith("scale.h") and report.status == "not-executed"
    (group,) = reason_groups([report], findings)
    assert group.title == "a constant at file scope needs dynamic initialisation"


TIMER = """#include <vendor_blas.h>
class lap {
public:
    void start() { vendor_begin(handle); }
    float stop() { start(); return 0; }
private:
    vendor_handle_t handle;
};
"""
TIMED = """#include "timer.h"
__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float lap = 2.0f;
    if (i < n) x[i] *= lap;
}
"""


@pytest.mark.parametrize("include", ["#include <vendor_blas.h>", "#include <vector>"])
def test_host_code_that_does_not_compile_does_not_keep_a_kernel_from_running(tmp_path, include):
    """A kernel uses the name of a class that device code cannot have."""
    (tmp_path / "timer.h").write_text(TIMER.replace("#include <vendor_blas.h>", include))
    report, findings = checked(tmp_path, TIMED)
    assert errors(findings) == [] and report.compiled


def test_a_class_that_a_kernel_needs_is_not_left_out(tmp_path):
    (tmp_path / "timer.h").write_text(TIMER)
    report, findings = checked(
        tmp_path, TIMED.replace("const float lap = 2.0f;", "lap timer; float lap = timer.stop();")
    )
    (hint,) = hints(findings)
    assert (report.compiled, hint.data["headers"]) == (False, ["vendor_blas.h"])
    (tmp_path / "timer.h").write_text("struct Factor {\n    float get() const { return valu; }\n    float value;\n};\n")
    report, findings = checked(tmp_path, TIMED.replace("int n)", "int n, Factor f)").replace("= 2.0f", "= f.get()"))
    assert [(item.rule, Path(item.place.path).name) for item in findings if item.severity is Severity.ERROR] == [
        ("compile/error", "timer.h")
    ]
