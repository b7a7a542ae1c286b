"""Kernels of files that include PyTorch's headers: the device-usable part is declared, without an installation."""

from __future__ import annotations

import pytest
from support.compile_requests import compiled

from gpuemu_lsp.engine.compile.preamble import prelude, stub_headers
from gpuemu_lsp.engine.source import read

KERNEL = """\
#include <torch/extension.h>
#include <ATen/cuda/Atomic.cuh>
#include "ATen/AccumulateType.h"

template <typename T> struct Sum { using type = at::acc_type<T, true>; };

template <typename scalar_t>
__global__ void C10_LAUNCH_BOUNDS_1(256) k(
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> a, scalar_t* __restrict__ y, int n) {
  typename Sum<scalar_t>::type sum = 0;
  CUDA_KERNEL_LOOP(i, n) {
    sum += a[i][0] * scalar_t(2) + std::exp(a[i][1]);
    if (a[i][0] > 1 && y[i] != y[0] && y[i] < y[1]) y[i] = static_cast<scalar_t>(sum);
    y[i] += a[i][0] * 0.5f;
  }
  sum = WARP_SHFL_DOWN(sum, 1);
  gpuAtomicAdd(y, static_cast<scalar_t>(sum));
  atomicAdd(y + 1, std::numeric_limits<scalar_t>::lowest());
  CUDA_KERNEL_ASSERT(n > 0);
}

torch::Tensor launch(const torch::Tensor& x) {
  TORCH_CHECK(x.is_cuda(), "x is not on the GPU");
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "k", [&] {
    k<scalar_t><<<1, 256>>>(x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), y.data_ptr<scalar_t>(), 3);
  });
  return y;
}
"""


@pytest.mark.parametrize("macros", [(), ("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__")])
@pytest.mark.parametrize("dtype", ["float", "double", "at::Half", "c10::BFloat16"])
def test_accessors_types_macros_and_atomics(tmp_path, dtype, macros):
    source = read((tmp_path / "k.cu").as_posix(), KERNEL, (), None, macros)
    result = compiled(source.device_view, tmp_path, expressions=(f"k<{dtype}>",), options=macros)
    assert result.findings == ()
    assert result.artifact is not None


def test_the_view_keeps_lines_and_columns(tmp_path):
    view = read((tmp_path / "k.cu").as_posix(), KERNEL).device_view
    before, after = KERNEL.split("\n"), view.split("\n")
    assert len(before) == len(after)
    for kept, shown in zip(before, after, strict=True):
        assert len(kept) == len(shown)
        assert all(new in (old, " ") for old, new in zip(kept, shown, strict=True))
    assert "TORCH_CHECK" not in view


def test_a_file_whose_device_code_needs_nothing_of_pytorch_does_not_include_it(tmp_path):
    text = "#include <torch/extension.h>\n__global__ void k(float* x) { x[0] = 1; }\nvoid f(at::Tensor x) { k<<<1, 1>>>(0); }\n"
    assert "torch" not in read((tmp_path / "k.cu").as_posix(), text).device_view


def test_an_installed_pytorch_is_not_read(tmp_path):
    include = tmp_path / "include"
    (include / "ATen").mkdir(parents=True)
    (include / "ATen/ATen.h").write_text("#include <everything>\n")
    text = "#include <ATen/ATen.h>\n__global__ void k(at::Half* x) { x[0] = x[1] + x[2]; }\n"
    source = read((tmp_path / "k.cu").as_posix(), text, [include.as_posix()])
    assert source.headers == {}
    result = compiled(source.device_view, tmp_path, include_dirs=(include.as_posix(),))
    assert result.findings == ()


STANDARD = """\
#include <cuda_fp16.hpp>
#include <functional>
#include <type_traits>
#include <bit>
static_assert(std::is_trivially_destructible_v<float> && std::is_same_v<std::common_type_t<int, float>, float>);
__global__ void k(float* x) {
  register int i = threadIdx.x;
  typename std::aligned_storage<4, 4>::type bits;
  *reinterpret_cast<float*>(&bits) = std::bit_cast<float>(0x3f800000);
  x[i] = std::modulus<int>()(7, 4) + std::popcount(3u) + __half2float(__half(1.0f)) + 1.0f / CLOCKS_PER_SEC;
  x[i] += std::exchange(x[1], 2.0f) + *reinterpret_cast<float*>(&bits);
}
"""


def test_names_of_the_standard_library_that_only_libcudacxx_has(tmp_path):
    assert compiled(STANDARD, tmp_path).findings == ()


def test_headers_of_pytorch_are_not_stubs():
    assert not [name for name in stub_headers() if name.startswith(("torch/", "ATen/"))]
    assert "c10" not in prelude()


def test_an_instance_of_a_type_that_the_source_does_not_name(tmp_path):
    text = "template <typename T> __global__ void k(const T* x, float* y) { y[0] = static_cast<float>(x[0]); }\n"
    result = compiled(text, tmp_path, expressions=("k<c10::Half>", "k<float>"))
    assert result.findings == ()
    assert result.artifact is not None
    assert set(result.artifact.entries) == {"k<c10::Half>", "k<float>"}
