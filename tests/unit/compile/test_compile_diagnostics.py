"""NVRTC's diagnostics on tokens of the source: one compilation per kind of error and warning."""

from __future__ import annotations

import pytest
from support.compile_requests import KERNEL, compiled, covered, spans

ERRORS = {
    "undefined name": ("__global__ void k(float* x) { x[0] = scale * 2; }", ["scale"]),
    "after CJK and emoji": ("__global__ void k(float* x) { /* 日本語 😀 */ x[0] = scale; }", ["scale"]),
    "after tabs": ("__global__ void k(float* x) {\n\t\tx[0]\t= scale;\n}", ["scale"]),
    "CRLF": ("__global__ void k(float* x) {\r\n  x[0] = 1;\r\n  x[1] = scale;\r\n}\r\n", ["scale"]),
    "byte order mark": ("\ufeff__global__ void k(float* x) {\n  x[1] = scale; }\n", ["scale"]),
    "NUL in the text": ("__global__ void k(float* x) {\n\0 x[1] = scale; }\n", ["scale"]),
    "several": ("__global__ void k(float* x) {\n x[0] = one;\n x[1] = two + three;\n}", ["one", "two", "three"]),
    "missing semicolon is reported at the next token": (
        "__global__ void k(float* x) {\n int i = 1\n x[i] = 0;\n}",
        ["x"],
    ),
    "wrong call": ("__device__ int f(int);\n__global__ void k(float* x) { f(x, 1); }", ["x", "1"]),
    "constant assigned": ("__global__ void k(float* x) { const int z = 3; z = 4; x[z] = 1; }", ["z"]),
    "operator": ("__global__ void k(float* x, float4 a) { x[0] = a << a; }", ["<<"]),
    "error directive": ("#error not here\n" + KERNEL, ["error"]),
    "end of file": ("__global__ void k(float* x) {\n  x[0] = 1;\n", ["x[0] = 1;"]),
    "a character no identifier can have": ("__global__ void k(int* x) { int 日本 = 3; x[0] = 1; }", ["日本", "日本"]),
}


@pytest.mark.parametrize(("text", "tokens"), ERRORS.values(), ids=ERRORS)
def test_an_error_covers_its_token(text, tokens, tmp_path):
    result = compiled(text, tmp_path)
    errors = [item for item in result.findings if item.rule == "compile/error"]
    assert result.artifact is None
    assert [covered(text, item) for item in errors] == tokens
    assert {item.place.path for item in errors} == {str(tmp_path / "kernel.cu")}


def test_a_template_error_has_its_instantiation_chain(tmp_path):
    text = (
        "template <class T> struct S { static __device__ T f(T x) { return x.nope; } };\n"
        "template <class T> __global__ void k(T* x) {\n"
        "  x[0] = S<T>::f(x[0]);\n"
        "}\n"
    )
    result = compiled(text, tmp_path, expressions=("k<float>",))
    (error,) = result.findings
    assert (covered(text, error), [item.place.range.start.line for item in error.related]) == ("x", [2])
    assert "T=float" in error.related[0].message


def test_candidates_are_related_places(tmp_path):
    text = "__device__ int f(int a, int b);\n__device__ int f(float4 a, int b);\n__global__ void k(int* x) { f(x); }\n"
    (error,) = compiled(text, tmp_path).findings
    assert covered(text, error) == "f"
    assert sorted(item.place.range.start.line for item in error.related) == [0, 1]


WARNINGS = {
    "unused variable in a kernel": ("__global__ void k(float* x) { int u; x[0] = 1; }", ["u"]),
    "unused variable in a device function": ("__device__ int f() { int u; return 1; }\n" + KERNEL, ["u"]),
    "unused variable in a method": ("struct S { __device__ void g() { int u; } };\n" + KERNEL, ["u"]),
    "assignment in a condition": ("__global__ void k(int* x) { if (x[0] = 1) x[1] = 2; }", ["x"]),
    "unsigned against zero": ("__global__ void k(int* x, unsigned n) { if (n >= 0) x[0] = 1; }", [">="]),
}


@pytest.mark.parametrize(("text", "tokens"), WARNINGS.values(), ids=WARNINGS)
def test_a_real_warning_is_shown(text, tokens, tmp_path):
    result = compiled(text, tmp_path)
    assert [(item.rule, covered(text, item)) for item in result.findings] == [("compile/warning", t) for t in tokens]
    assert all(str(item.data["number"]).endswith("-D") for item in result.findings)


SILENT = {
    "helpers that only host code calls": "static int twice(int x) { return 2 * x; }\nstatic void helper() {}\n",
    "constants that only host code reads": "static int limit = 3;\nconst int blocks = 4;\n"
    "namespace n { static float w; }\n",
    "linkage blocks are not functions": 'extern "C" {\nstatic int counter;\n}\n',
    "the C library's macros": "#define M_PI 3.14f\n#define INFINITY 1e30f\n#define FLT_MAX 3e38f\n",
    "the C library's types": "typedef unsigned int uint;\ntypedef unsigned long long uint64_t;\n"
    "typedef signed char int8_t;\n",
    "host pragmas": "#pragma omp parallel\n#pragma GCC diagnostic push\n",
    "a library of their own in std": "namespace std {\n"
    "template <class T> struct numeric_limits { static const int v = 3; }; }\n",
    "unused templates": "template <class T> static T twice(T x) { return 2 * x; }\n",
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_warnings_caused_by_the_view_are_dropped(text, tmp_path):
    result = compiled(text + KERNEL, tmp_path)
    assert (spans(result.findings), result.artifact is not None) == ([], True)


def test_an_uninstantiated_template_does_not_affect_other_kernels(tmp_path):
    result = compiled("template <class T> __global__ void t(T* x) {}\n" + KERNEL, tmp_path)
    assert result.artifact is not None
    assert "_Z1kPf" in result.artifact.ptx


def test_unknown_name_expressions_are_reported_and_the_others_compiled(tmp_path):
    text = "template <class T> __global__ void t(T* x) { x[0] = 1; }\n" + KERNEL
    result = compiled(text, tmp_path, expressions=("t<float>", "t<nope>", "missing", "k"))
    assert result.artifact is not None
    assert result.artifact.entries == {"t<float>": "_Z1tIfEvPT_", "k": "_Z1kPf"}
    assert [item.rule for item in result.findings] == ["compile/missing-entry"] * 2
    assert all(name in " ".join(item.message for item in result.findings) for name in ("`t<nope>`", "`missing`"))


PTXAS = {
    "too much static shared memory": (
        "__global__ void big(float* x) {\n __shared__ float s[20000];\n s[threadIdx.x] = x[0];\n __syncthreads();\n"
        " x[0] = s[threadIdx.x ^ 1];\n}\n",
        ("compile/error", 0, 16, 19),
        "80000 bytes, 49152 max",
    ),
    "inline assembly": (
        '__global__ void k(float* x) {\n  x[1] = 2;\n  asm("bogus.f32 %0, 1.0;" : "=f"(x[0]));\n}\n',
        ("compile/error", 2, 2, 5),
        "bogus",
    ),
    "an undefined device function": (
        "__device__ float other(float);\n__global__ void k(float* x) { x[0] = other(x[1]); }\n",
        ("compile/error", 0, 17, 22),
        "Unresolved extern function",
    ),
}


@pytest.mark.parametrize(("text", "span", "words"), PTXAS.values(), ids=PTXAS)
def test_ptxas_errors_are_located_in_the_source(text, span, words, tmp_path):
    result = compiled(text, tmp_path)
    assert result.artifact is None
    assert spans(result.findings) == [span]
    assert words in result.findings[0].message


def test_dynamic_parallelism_is_an_unsupported_instruction(tmp_path):
    text = "__global__ void c(int* x) { x[0] = 2; }\n__global__ void k(int* x) {\n  c<<<1, 1>>>(x);\n}\n"
    result = compiled(text, tmp_path)
    assert result.artifact is None
    assert [(item.rule, covered(text, item)) for item in result.findings] == [("engine/unsupported-instruction", "c")]


def test_an_unknown_architecture_lists_the_supported_ones(tmp_path):
    result = compiled(KERNEL, tmp_path, arch="sm_42")
    assert [item.rule for item in result.findings] == ["config/bad-value"]
    assert "sm_80" in result.findings[0].message
