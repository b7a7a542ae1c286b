"""Warm-up: one check of a correct kernel in the fork server, so that workers inherit initialised caches.

Parsed expressions, resolved type hints, tables, versions, LLVM's target machine and the emulator's device library are
created on first use. Each is cheap, but together they take half of the check of a small kernel. The modules of debug
sessions are imported at the end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpuemu_lsp.engine.check.verdicts.key import engine_digest
from gpuemu_lsp.engine.jobs.functions import check
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.wire import to_json

_KERNEL = """\
#include <cuda_fp16.h>
template <typename T> __global__ void scaled_sums(const T* x, float* y, int rows, int cols) {{
    __shared__ float partial[64];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 64) sum += float(x[blockIdx.x * cols + c]);
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {{
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }}
    if (threadIdx.x == 0) y[blockIdx.x] = partial[0] * {factor}.0f;
}}
void run(const half* x, float* y, int rows, int cols) {{ scaled_sums<half><<<rows, 64>>>(x, y, rows, cols); }}
"""
_REFERENCE = """\
def reference(inputs, rows, cols):
    return inputs["x"].reshape(rows, cols).sum(axis=1) * {factor}.0
"""


def warm_up() -> Iterator[None]:
    """Check the kernel; yield after each step. No user code runs, and nothing is stored."""
    engine_digest()
    yield
    factor = os.getpid() % 1024  # varies, so that a hit in the disk cache does not skip the first use of LLVM
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "reference.py"
        reference.write_text(_REFERENCE.format(factor=factor), encoding="utf-8")
        spec = KernelSpec("scaled_sums", f"{folder}/scaled_sums.cu", reference.as_posix())
        request = CheckRequest(spec, CheckOptions(cases=2), text=_KERNEL.format(factor=factor), root=folder)
        for _ in check(to_json(request)):
            yield
    from gpuemu_lsp.engine.jobs import debug_job  # noqa: F401  # a check does not need it, and takes place before

    yield
