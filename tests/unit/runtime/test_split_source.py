"""A CUDA source in two parts: what the host's compiler sees, and what the device's does."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.runtime.toolchain.split_compile import with_device_headers
from gpuemu_lsp.engine.runtime.toolchain.split_source import SplitError, split_source, with_launches

SOURCE = """#include <torch/extension.h>
#include <ATen/cuda/Atomic.cuh>
#define THREADS 128
namespace {
struct Scale {
    float factor;
    __device__ float operator()(float x) const { return __ldg(&factor) * x; }
};
__device__ __forceinline__ float twice(float x) { return 2 * x; }
template <typename T, typename F>
__global__ void __launch_bounds__(THREADS) apply(const T* x, T* y, F f) {
    y[threadIdx.x] = f(twice(x[threadIdx.x]));
}
static __global__ void fill(float* x) { x[threadIdx.x] = 1; }
constexpr int WIDTH = 4;
}  // namespace
torch::Tensor run(torch::Tensor x) {
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "run", [&] {
        apply<scalar_t, Scale><<<1, THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<scalar_t>(), y, Scale{});
    });
    fill<<<dim3(1), dim3(WIDTH)>>>(x.data_ptr<float>());
    return x;
}
"""


def test_bodies_of_kernels_are_the_device_s_and_functions_of_the_host_are_not():
    parts = split_source(SOURCE, "unique")
    assert parts.kernels == {"apply", "fill"}
    assert parts.internal == {"fill"}
    assert "twice" not in parts.host
    assert "__ldg" not in parts.host and "__ldg" in parts.device
    assert "torch::Tensor run" in parts.host and "torch::Tensor" not in parts.device
    assert "torch/extension.h" not in parts.device and "Atomic.cuh" in parts.device
    assert "WIDTH = 4" in parts.host and "WIDTH = 4" in parts.device
    for part in (parts.host, parts.device):
        assert "inline namespace unique {" in part
        assert "namespace {" not in part
        assert "static" not in part


def test_lines_stay_where_they_are():
    parts = split_source(SOURCE, "unique")
    lines = SOURCE.splitlines()
    for part in (parts.host, parts.device):
        assert len(part.splitlines()) == len(lines)
    assert "fill" in parts.host.splitlines()[lines.index(next(text for text in lines if "fill<<<" in text))]
    assert parts.device.splitlines()[11] == lines[11]


def test_a_launch_is_the_call_of_the_stub_after_its_configuration():
    assert with_launches("k<T, f<2>><<<(n + 1) / 2, dim3(4, 1), 0, s>>>(x, g(y));") == (
        "(__cudaPushCallConfiguration((n + 1) / 2, dim3(4, 1), 0, s) ? (void)0 : k<T, f<2>>(x, g(y)));"
    )
    assert with_launches("#define L(k) k<<<1, 2>>>(x)") == (
        "#define L(k) (__cudaPushCallConfiguration(1, 2) ? (void)0 : k(x))"
    )
    assert with_launches('s << "a" << 1;') == 's << "a" << 1;'


def test_what_looks_like_a_launch_in_a_comment_or_text_stays():
    text = '/* k<<<1, 2>>>(x; */ // k<<<1\nauto s = "<<<"; k<<<1, 2>>>(x);'
    assert with_launches(text) == text.replace("k<<<1, 2>>>(x)", "(__cudaPushCallConfiguration(1, 2) ? (void)0 : k(x))")


def test_the_host_has_declarations_of_the_device_s_variables():
    parts = split_source(VARIABLES, "unique")
    declared = [line.strip() for line in parts.host.splitlines()]
    assert declared[:6] == [
        "extern float table[4];",
        "",
        "extern int counter;",
        "namespace a { extern const double3 d; }",
        "extern Pair<int, 2> pairs[2][3];",
        "void f() { cudaMemcpyToSymbol(table, p, 16); }",
    ]
    assert parts.device.splitlines()[:2] == VARIABLES.splitlines()[:2]


VARIABLES = """__constant__ float table[4] = {1, 2,
    3, 4};
static __device__ int counter = 3;
namespace a { __constant__ const double3 d; }
__device__ Pair<int, 2> pairs[2][3];
void f() { cudaMemcpyToSymbol(table, p, 16); }
"""


def test_a_constructor_of_the_device_is_declared_without_its_initializers():
    parts = split_source("struct View {\n    int* p;\n    __device__ View(int* q)\n        : p(q) {}\n};\n", "unique")
    assert parts.host.split() == ["struct", "View", "{", "int*", "p;", "__device__", "View(int*", "q);", "};"]
    assert len(parts.host.splitlines()) == 5


@pytest.mark.parametrize("header", ["cooperative_groups.h", "cooperative_groups/reduce.h", "cuda_pipeline.h"])
def test_headers_of_device_functions_are_not_the_host_s_which_is_asked_for_the_compiler_by_another_name(header):
    parts = split_source(f"#include <{header}>\n#ifndef __CUDACC__\nint x;\n#endif\n", "unique")
    assert parts.host.splitlines()[:2] == ["", "#ifndef GPUEMU__CUDACC__"]
    assert parts.device.splitlines()[:2] == [f"#include <{header}>", "#ifndef __CUDACC__"]


@pytest.mark.parametrize(
    "text",
    [
        "void f() { (*pointer)<<<1, 2>>>(x); }",
        "void f() { k<<<1, 2>>>(x; }",
    ],
)
def test_what_both_parts_need_or_cannot_be_read_is_not_split(text):
    with pytest.raises(SplitError):
        split_source(text, "unique")


@pytest.mark.parametrize(
    ("text", "headers"),
    [("best = -FLT_MAX;", {"cfloat"}), ("best = DBL_EPSILON;", {"cfloat"}), ("best = MY_FLT_MAX;", set())],
)
def test_the_device_s_part_has_the_constants_that_pytorch_s_headers_give(text, headers):
    added = set(with_device_headers(text).splitlines()) - set(with_device_headers("").splitlines()) - {text}
    assert added == {f"#include <{header}>" for header in headers}
