"""Headers of CUDA and of the standard library by name, and the identifiers that make them worth including.

User headers are resolved on disk. Of all other includes only CUDA's device headers stay in a device view: the prelude
of the compiler declares the standard library's device-usable part, and ``iostream`` or ``torch/extension.h`` serve
host code. A costly CUDA header stays only if device code mentions one of its identifiers.
"""

from __future__ import annotations

import re

_STANDARD = re.compile(
    r"(?:(?:assert|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|memory|setjmp|signal|stdalign|stdarg|stdbool"
    r"|stddef|stdint|stdio|stdlib|string|strings|time|unistd|malloc|getopt|dirent|fcntl|pthread|omp|windows|sys/\w+)\.h"
    r"|[a-z_]+|bits/stdc\+\+\.h|Python\.h|pybind11/.+|nanobind/.+|numpy/\w+\.h)$"
)

_DEVICE = re.compile(
    r"(?:cuda_(?:fp16|bf16|fp8|fp6|fp4)\.(?:h|hpp)|cuda_pipeline\w*\.h|cuda_awbarrier\w*\.h|cuComplex\.h|mma\.h|curand_\w+\.h"
    r"|cufft(?:Xt)?\.h"
    r"|cuda_runtime\.h|cuda_runtime_api\.h|cuda_device_runtime_api\.h|cuda\.h|device_launch_parameters\.h"
    r"|device_functions\.h|device_atomic_functions\.h|device_double_functions\.h|math_functions\.h|math_constants\.h"
    r"|vector_types\.h|vector_functions\.(?:h|hpp)|driver_types\.h|host_defines\.h|builtin_types\.h|channel_descriptor\.h"
    r"|library_types\.h|surface_\w+\.h|texture_\w+\.h|sm_\d\d_\w+\.(?:h|hpp)|cudaTypedefs\.h|cuda_texture_types\.h"
    r"|cuda_surface_types\.h|cuda_occupancy\.h|cooperative_groups(?:\.h|/.+)|cuda/.+|nv/.+|cub/.+|thrust/.+|crt/.+)$"
)

_NEEDED_FOR = (
    # CUB, Thrust, libcu++ and cooperative groups take up to 3 s to compile; many files include them for host code only.
    (
        re.compile(r"cooperative_groups"),
        re.compile(r"(?:cooperative_groups|this_(?:grid|thread_block|thread|cluster))$"),
    ),
    (re.compile(r"cub/"), re.compile(r"cub$")),
    (re.compile(r"thrust/(?:pair|tuple|complex|functional|optional|swap)\.h$"), re.compile(r"thrust$")),
    # An algorithm runs in a thread with the policy `thrust::seq`; with another one, as containers, it is host code.
    (re.compile(r"thrust/"), re.compile(r"seq$")),
    (re.compile(r"cuda/"), re.compile(r"cuda$")),
    (re.compile(r"curand_"), re.compile(r"curand")),
    (re.compile(r"cufft"), re.compile(r"cufft(?:Double)?(?:Real|Complex)$")),
    (re.compile(r"mma\.h$"), re.compile(r"(?:nvcuda|wmma)$")),
    (re.compile(r"cuda\.h$"), re.compile(r"(?:CU[a-z]|CU_)")),
)

_PROVIDES = (
    (
        "cuda_fp16.h",
        re.compile(r"(?:__)?half2?$|__half_raw$|__float2half|__half2float|__h(?:add|sub|mul|fma|div|max|min)2?$"),
    ),
    ("cuda_bf16.h", re.compile(r"(?:__)?nv_bfloat16|__float2bfloat16|__bfloat162float")),
    ("cuda_fp8.h", re.compile(r"__nv_fp8")),
    ("mma.h", re.compile(r"nvcuda$")),
    ("cuComplex.h", re.compile(r"cu(?:Float|Double)?Complex$|make_cu\w*Complex$|cuC[a-z]+f?$")),
)


_TORCH = re.compile(
    r"(?:(?:torch|ATen|c10|caffe2|THC)/.+\.h(?:pp)?|ATen/cuda/(?:Atomic|DeviceUtils|NumericLimits|detail/\w+)\.cuh"
    r"|THC/.+\.cuh)$"
)
_TORCH_WORDS = re.compile(
    r"(?:at|c10|torch|TORCH_DSA_\w+|C10_\w+|AT_(?:HOST|DEVICE|HOST_DEVICE)|CUDA_KERNEL_\w+|WARP_(?:SHFL\w*|BALLOT|SYNC)"
    r"|ACTIVE_MASK|doLdg|gpuAtomic\w+|CUDA_(?:MAX_)?THREADS_PER_\w+|MAX_TENSORINFO_DIMS)$"
)


def is_torch_header(target: str) -> bool:
    """Return whether an include names a header of PyTorch whose device-usable part the compiler has."""
    return bool(_TORCH.match(target))


def is_standard(target: str) -> bool:
    """Return whether an include names a header of the C or C++ standard library, the operating system or Python.

    None of those of Python and its bindings has device code, and NVRTC does not compile them.
    """
    return bool(_STANDARD.match(target))


def implied(words: frozenset[str], shown: frozenset[str]) -> tuple[str, ...]:
    """Return CUDA headers whose identifiers are among ``words`` and which no include in ``shown`` names.

    ``cublas_v2.h`` and ``torch/extension.h`` include ``cuda_fp16.h``; a view that omits them has to include it itself.
    """
    return tuple(
        header
        for header, word in _PROVIDES
        if header not in shown and any(word.match(candidate) for candidate in words)
    )


def is_device_header(target: str) -> bool:
    """Return whether an include names a header of CUDA that device code may use."""
    return bool(_DEVICE.match(target))


def is_wanted(target: str, words: frozenset[str]) -> bool:
    """Return whether code with these identifiers can need a device header."""
    if is_torch_header(target):
        return any(map(_TORCH_WORDS.match, words))
    for header, word in _NEEDED_FOR:
        if header.match(target):
            return any(word.match(candidate) for candidate in words)
    return True
