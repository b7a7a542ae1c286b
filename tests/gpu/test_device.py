"""The same kernels on a real GPU and on the emulator: equal bytes and events. Skipped without a GPU."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from gpuemu_lsp.engine.compile.cache import DiskCache
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.device import Device, available
from gpuemu_lsp.engine.execution import Buffer, Outcome, Request, Scalar

_PRESENT, _REASON = available()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not _PRESENT, reason=_REASON)]

N = 1000
COUNT = Scalar("n", N.to_bytes(4, "little"))
POISON = np.full(N * 4, 0xCD, np.uint8)
RNG = np.random.default_rng(1)
X = RNG.standard_normal(N).astype(np.float32)

GOOD = {
    "axpy": (
        'extern "C" __global__ void k(const float* x, float* y, int n) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i] * 2.0f + 1.0f;\n}\n",
        (4, 256, 0),
    ),
    "block sums through shared memory": (
        'extern "C" __global__ void k(const float* x, float* y, int n) {\n  extern __shared__ float s[];\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  s[threadIdx.x] = i < n ? x[i] : 0;\n  __syncthreads();\n"
        "  for (int w = blockDim.x / 2; w; w /= 2) {\n    if (threadIdx.x < w) s[threadIdx.x] += s[threadIdx.x + w];\n"
        "    __syncthreads();\n  }\n  if (i < n) y[i] = s[0];\n}\n",
        (4, 256, 1024),
    ),
    "more shared memory than a block gets by default": (
        'extern "C" __global__ void k(const float* x, float* y, int n) {\n  extern __shared__ float s[];\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  s[threadIdx.x + 12544] = i < n ? x[i] : 0;\n"
        "  __syncthreads();\n  if (i < n) y[i] = s[12544 + (threadIdx.x ^ 1)];\n}\n",
        (4, 256, 51200),
    ),
    "a barrier of the grid": (
        "#include <cooperative_groups.h>\n"
        'extern "C" __global__ void k(const float* x, float* y, int n) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = x[i];\n"
        "  cooperative_groups::this_grid().sync();\n  float other = i < n ? y[n - 1 - i] : 0;\n"
        "  cooperative_groups::this_grid().sync();\n  if (i < n) y[i] = other;\n}\n",
        (4, 256, 0),
    ),
}


def _run(executor: object, text: str, launch: tuple[int, int, int], tmp_path: Path) -> Outcome:
    result = compile_source(CompileRequest(str(tmp_path / "k.cu"), text), DiskCache(tmp_path / "cache"))
    assert result.artifact is not None, result.findings
    arguments = (Buffer("x", X.view(np.uint8)), Buffer("y", POISON, initialized=False), COUNT)
    grid, block, shared = launch
    return executor.run(Request(result.artifact, "k", (grid, 1, 1), (block, 1, 1), shared, arguments))  # type: ignore[attr-defined]


@pytest.mark.parametrize(("text", "launch"), GOOD.values(), ids=GOOD)
def test_gpu_and_emulator_agree(text, launch, tmp_path):
    emulator = importlib.import_module("gpuemu_lsp.engine.emulator").Emulator()
    real, emulated = _run(Device(), text, launch, tmp_path), _run(emulator, text, launch, tmp_path)
    assert (real.status, real.events) == ("completed", ())
    assert emulated.status == "completed"
    assert real.buffers["y"].tobytes() == emulated.buffers["y"].tobytes()
    assert real.buffers["x"].tobytes() == X.tobytes()


def test_a_write_past_the_end_overwrites_the_guard(tmp_path):
    text = 'extern "C" __global__ void k(const float* x, float* y, int n) { y[n] = x[0]; }\n'
    outcome = _run(Device(), text, (1, 1, 0), tmp_path)
    assert outcome.status == "completed"
    assert [(item.rule, item.buffer, item.offset, item.size) for item in outcome.events] == [
        ("memory/out-of-bounds", "y", N * 4, 4)
    ]


def test_printf_is_collected(tmp_path):
    text = 'extern "C" __global__ void k(const float* x, float* y, int n) { printf("n=%d\\n", n); }\n'
    assert _run(Device(), text, (1, 1, 0), tmp_path).printed == "n=1000\n"


def test_a_rejected_launch_is_not_a_fault(tmp_path):
    device = Device()
    text = 'extern "C" __global__ void k(const float* x, float* y, int n) { y[0] = 1; }\n'
    outcome = _run(device, text, (1, 4096, 0), tmp_path)
    assert (outcome.status, device.poisoned) == ("failed", False)
    assert _run(device, text, (1, 1, 0), tmp_path).status == "completed"
