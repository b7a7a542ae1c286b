"""Kernel declarations: names, template headers, parameters, linkage, launch bounds, constants, instantiations."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile


def source(text: str) -> SourceFile:
    return read("/nowhere/kernel.cu", text)


def only(text: str) -> KernelDecl:
    (kernel,) = source(text).kernels
    return kernel


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("__global__ void k(int n) {}", ["k"]),
        ("static __global__ void k() {}", ["k"]),
        ("void __global__ k() {}", ["k"]),
        ("inline __global__ __launch_bounds__(64) void k() {}", ["k"]),
        ("__global__ void __launch_bounds__(64, (2 + 1)) k() {}", ["k"]),
        ("__global__ void k() __launch_bounds__(64) {}", ["k"]),
        ("__global__ void __cluster_dims__(2, 1, 1) k() {}", ["k"]),
        ("__attribute__((noinline)) __global__ void k() {}", ["k"]),
        ("[[maybe_unused]] __global__ void k() {}", ["k"]),
        ('extern "C" __global__ void k() {}', ["k"]),
        ('extern "C" { __global__ void k() {} __global__ void q() {} }', ["k", "q"]),
        ("namespace a { namespace b { __global__ void k() {} } }", ["a::b::k"]),
        ("namespace a::b { __global__ void k() {} }", ["a::b::k"]),
        ("namespace { __global__ void k() {} }", ["k"]),
        ("inline namespace v1 { __global__ void k() {} }", ["v1::k"]),
        ('namespace __attribute__((visibility("default"))) a { __global__ void k() {} }', ["a::k"]),
        ("__global__ void k(float); __global__ void k(float x) {}", ["k"]),
        ("__global__ void k(float* x) {}\n__global__ void k(double* x) {}", ["k", "k"]),
        ("template <> __global__ void k<float>(float* x) {}", ["k<float>"]),
        ("// __global__ void no() {}\n/* __global__ void no() {} */ __global__ void k() {}", ["k"]),
        ('const char* s = "__global__ void no() {}"; __global__ void k() {}', ["k"]),
        ("#if 0\n__global__ void no() { don't\n#endif\n__global__ void k() {}", ["k"]),
        ("#ifdef A\n__global__ void k(int a) {\n#else\n__global__ void k(float a) {\n#endif\n}\nvoid f() {}", ["k"]),
        ("#define KERNEL __global__ void\nKERNEL k(float* x) {}", ["k"]),
        ("#define G __global__\n#define KERNEL G void\nKERNEL k(float* x) {}", ["k"]),
        ("#define MAKE(T, N) __global__ void N##_##T(T* x) {}\nMAKE(float, a)\nMAKE(int, b);", ["a_float", "b_int"]),
        ("#define ONE(T) __global__ void k_##T(T* x) {}\n#define ALL ONE\nONE(float) ONE(int)", ["k_float", "k_int"]),
        ("int main() { return 0; }", []),
        ("", []),
        ("\0\x7f\xfe binary \ud800", []),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert [kernel.qualified_name for kernel in source(text).kernels] == names


@pytest.mark.parametrize(
    ("damaged", "names"),
    [
        ("__global__ void k(float* x) { if (x) { x[0] = 1;\n\n__global__ void q(float* x) { x[0] = 1; }\n", ["k", "q"]),
        ("__global__ void k(float* x) { x[0] = (1; }\n__global__ void q() {}\n", ["k", "q"]),
        ("int main() { foo(;\n\n__global__ void q() {}\n", ["q"]),
        ("__global__ void k() {} }\n__global__ void q() {}\n", ["k", "q"]),
        ("struct S { int a;\n\n__global__ void q() {}\n", ["q"]),
        ("float x[] = {1, 2\n\ntemplate <int N>\n__global__ void q() {}\n", ["q"]),
    ],
)
def test_other_kernels_of_half_written_files_are_found(damaged: str, names: list[str]) -> None:
    found = source(damaged)
    assert [kernel.name for kernel in found.kernels] == names
    assert found.has_errors


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("template <typename T>", [("typename", "T", None)]),
        ("template<class T = float>", [("class", "T", "float")]),
        ("template <int BLOCK = 16 * 16, bool B = (1 > 0)>", [("int", "BLOCK", "16 * 16"), ("bool", "B", "(1 > 0)")]),
        ("template <unsigned int N, auto M>", [("unsigned int", "N", None), ("auto", "M", None)]),
        ("template <typename... Ts>", [("typename...", "Ts", None)]),
        (
            "template <typename T, typename = std::enable_if_t<(sizeof(T) > 2)>>",
            [("typename", "T", None), ("typename", "", "std::enable_if_t<(sizeof(T) > 2)>")],
        ),
        ("template <template <typename> class Op, typename T>", [("template", "Op", None), ("typename", "T", None)]),
        ("template <Mode mode>", [("Mode", "mode", None)]),
        ("template <float (*f)(float)>", [("float (*f)(float)", "", None)]),
    ],
)
def test_template_parameters(header: str, expected: list[tuple[str, str, str | None]]) -> None:
    kernel = only(f"{header}\n__global__ void k(float* x) {{}}")
    assert [(param.kind, param.name, param.default) for param in kernel.template] == expected


@pytest.mark.parametrize(
    ("text", "name", "kind", "depth", "const", "restrict"),
    [
        ("float* x", "x", "float", 1, False, False),
        ("const float *x", "x", "float", 1, True, False),
        ("float const* x", "x", "float", 1, True, False),
        ("float* const x", "x", "float", 1, False, False),
        ("const float* const __restrict__ x", "x", "float", 1, True, True),
        ("const float* __restrict x", "x", "float", 1, True, True),
        ("float *__restrict__ x", "x", "float", 1, False, True),
        ("volatile int* x", "x", "int", 1, False, False),
        ("float x[]", "x", "float", 1, False, False),
        ("const float x[16]", "x", "float", 1, True, False),
        ("float x[][4]", "x", "float", 2, False, False),
        ("float** x", "x", "float", 2, False, False),
        ("const float* const* x", "x", "float", 2, True, False),
        ("float (&x)[4]", "x", "float", 1, False, False),
        ("int n", "n", "int", 0, False, False),
        ("const int n", "n", "int", 0, True, False),
        ("unsigned int n", "n", "unsigned int", 0, False, False),
        ("unsigned long long n = 1ull << 3", "n", "unsigned long long", 0, False, False),
        ("size_t", "", "size_t", 0, False, False),
        ("unsigned int", "", "unsigned int", 0, False, False),
        ("float*", "", "float", 1, False, False),
        ("const T&  v", "v", "T", 0, True, False),
        ("struct Params p", "p", "Params", 0, False, False),
        ("const __grid_constant__ CUtensorMap map", "map", "CUtensorMap", 0, True, False),
        ("cuda::std::array<int, 3> dims", "dims", "cuda::std::array<int, 3>", 0, False, False),
        ("Pair<int, float>* p", "p", "Pair<int, float>", 1, False, False),
        ("const typename Traits<T>::type* p", "p", "typename Traits<T>::type", 1, True, False),
        ("ns::Config c", "c", "ns::Config", 0, False, False),
        ("half2 const* __restrict__ h", "h", "half2", 1, True, True),
        ("[[maybe_unused]] int n", "n", "int", 0, False, False),
        ("float *x = nullptr", "x", "float", 1, False, False),
        ("IN float RESTRICT_PTR x", "x", "float", 1, True, True),
    ],
)
def test_parameters(text: str, name: str, kind: str, depth: int, const: bool, restrict: bool) -> None:
    macros = "#define IN const\n#define RESTRICT_PTR * __restrict__\n"
    (param,) = only(f"{macros}__global__ void k({text}) {{}}").params
    assert (param.name, param.type, param.pointer_depth) == (name, kind, depth)
    assert (param.pointer, param.const, param.restrict) == (depth > 0, const, restrict)


def test_columns_are_utf8_bytes() -> None:
    kernel = only("/* é */ __global__ void\nk(int a,\r\n  float* 変) {\n}\n")
    assert (kernel.name_range.start.line, kernel.name_range.start.column) == (1, 0)
    assert kernel.range.start.column == len("/* é */ ".encode())
    assert (kernel.range.end.line, kernel.range.end.column) == (3, 1)
    assert kernel.params[1].range.start.line == 2


@pytest.mark.parametrize(
    ("text", "extern_c", "threads"),
    [
        ('extern "C" __global__ void __launch_bounds__(256, 2) k() {}', True, 256),
        ('#define K extern "C" __global__\nK void k() {}', True, None),
        ('extern "C" {\n__global__ void k() {}\n}', True, None),
        ("__global__ void __launch_bounds__(N) k() {}", False, None),
        ('extern "C" int host();\n__global__ void k() {}', False, None),
    ],
)
def test_linkage_and_bounds(text: str, extern_c: bool, threads: int | None) -> None:
    kernel = only(text)
    assert (kernel.extern_c, kernel.max_threads) == (extern_c, threads)


@pytest.mark.parametrize(
    ("declaration", "kind"),
    [
        ("extern __shared__ float s[];", "float"),
        ("extern __shared__ __align__(16) unsigned char s[];", "unsigned char"),
        ("extern __shared__ std::byte s[];", "std::byte"),
        ("extern __shared__ float4 s[ ];", "float4"),
        ("__shared__ float s[4];", None),
    ],
)
def test_dynamic_shared_memory(declaration: str, kind: str | None) -> None:
    assert source(f"__global__ void k(float* x) {{ {declaration} }}").dynamic_shared.get("k") == kind


def test_constants() -> None:
    text = """
#define N 4
#define M (N * 2)
#define NAME "x"
#define CALL(x) x
#define EMPTY
#ifdef __GNUC__
#define TWICE 1
#else
#define TWICE 2
#endif
constexpr int K = 1 << 3; const int P = 1, Q = P + 1;
static constexpr unsigned R{7};
int variable = 3;
enum { E0, E1 = 5, E2 };
enum class Kind : int { A };
"""
    assert dict(source(text).constants) == {
        "N": "4", "M": "(N * 2)", "K": "1 << 3", "P": "1", "Q": "P + 1", "R": "7",
        "E0": "0", "E1": "5", "E2": "E1 + 1", "A": "0",
    }  # fmt: skip


def test_explicit_instantiations() -> None:
    text = (
        "template <typename T, int N> __global__ void k(T* x) {}\n"
        "template __global__ void k<float, 4>(float*);\ntemplate __global__ void k< half , 8 * 2 >(half*);\n"
        "template void host<float>(float*);\nextern template __global__ void k<int, 1>(int*);\n"
    )
    assert source(text).instances == (("k", ("float", "4")), ("k", ("half", "8 * 2")))


def test_hidden_includes() -> None:
    text = '#include <torch/extension.h>\n#include "absent.h"\n#include <vector>\n#include <cuda_fp16.h>\n#include <omp.h>\n'
    assert [include.target for include in source(text).includes if include.hidden] == ["torch/extension.h", "absent.h"]


@pytest.mark.parametrize("target", ["pybind11/pybind11.h", "Python.h", "nanobind/nanobind.h", "numpy/arrayobject.h"])
def test_headers_of_python_are_host_code(tmp_path, target):
    """Also where they are found, as PyTorch has them in its folder of headers."""
    header = tmp_path / "include" / target
    header.parent.mkdir(parents=True)
    header.write_text("#error for the host\n")
    text = f"#include <{target}>\n__global__ void k(float* x) {{ x[0] = 1; }}\n"
    found = read(str(tmp_path / "k.cu"), text, (str(tmp_path / "include"),))
    assert target not in found.device_view and not found.headers
    assert [include.resolved for include in found.includes] == [None]


def test_a_class_template_may_end_in_a_digit(tmp_path):
    text = (
        "template <typename T>\n__global__ void k(torch::Accessor32<T, 2, torch::Traits> x, T* y, int a = 2 < 3) {}\n"
    )
    (kernel,) = read(str(tmp_path / "k.cu"), text).kernels
    expected = [("torch::Accessor32<T, 2, torch::Traits>", "x"), ("T", "y"), ("int", "a")]
    assert [(param.type, param.name) for param in kernel.params] == expected
