"""Which headers device code can need, and what has to be in it for them to be worth their compile time.

User headers are found on disk. Of the rest only CUDA's own device headers stay in a device view. What device code may
use of the standard library is declared before its first line; ``torch/extension.h`` or ``iostream`` serve the host.
"""

from __future__ import annotations

import re

_STANDARD = re.compile(
    r"(?:(?:assert|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|memory|setjmp|signal|stdalign|stdarg|stdbool"
    r"|stddef|stdint|stdio|stdlib|string|strings|time|unistd|malloc|getopt|dirent|fcntl|pthread|omp|windows|sys/\w+)\.h"
    r"|[a-z_]+|bits/stdc\+\+\.h)$"
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

_WORTH = (
    # CUB, Thrust, libcu++ and cooperative groups cost up to 3 s; files often include them for the host's sake.
    (
        re.compile(r"cooperative_groups"),
        re.compile(r"(?:cooperative_groups|this_(?:grid|thread_block|thread|cluster))$"),
    ),
    (re.compile(r"cub/"), re.compile(r"cub$")),
    (re.compile(r"thrust/"), re.compile(r"thrust$")),
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


def is_standard(target: str) -> bool:
    """Say whether an include names a header of the C or C++ library or the system."""
    return bool(_STANDARD.match(target))


def implied(words: frozenset[str], shown: frozenset[str]) -> tuple[str, ...]:
    """Return CUDA's headers that kept code needs although none of the ``shown`` includes names them.

    ``cublas_v2.h`` and ``torch/extension.h`` bring ``cuda_fp16.h`` along; without them somebody else has to.
    """
    return tuple(
        header
        for header, word in _PROVIDES
        if header not in shown and any(word.match(candidate) for candidate in words)
    )


def is_device_header(target: str) -> bool:
    """Say whether an include names one of CUDA's own headers that device code may use."""
    return bool(_DEVICE.match(target))


def is_wanted(target: str, words: frozenset[str]) -> bool:
    """Say whether kept code with these identifiers can need a device header at all."""
    for header, word in _WORTH:
        if header.match(target):
            return any(word.match(candidate) for candidate in words)
    return True
