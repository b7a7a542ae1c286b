"""Triton's matmul compiled for sm_90, where it multiplies by `wgmma`: bit for bit on integers, and without findings."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Request, Scalar

M, N, K = 128, 64, 160


@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    a += rows[:, None] * k + inner[None, :]
    b += inner[:, None] * n + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        sums = tl.dot(tl.load(a), tl.load(b), sums)
        a += BK
        b += BK * n
    tl.store(c + rows[:, None] * n + columns[None, :], sums)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("warps", [4, 8])
def test_pipelined_products_of_warp_groups(stages, warps):
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"}
    blocks = {"BM": M, "BN": N, "BK": 32}
    source = ASTSource(
        product,
        signature={**types, **dict.fromkeys(blocks, "constexpr")},
        constexprs=blocks,
        attrs={(index,): [["tt.divisibility", 16]] for index in range(6)},
    )
    compiled = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages}
    )
    assert "wgmma.mma_async" in compiled.asm["ptx"]
    random = np.random.default_rng(stages)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    inputs = [Buffer(name, one.view(np.uint8).reshape(-1), element_size=2) for name, one in (("a", a), ("b", b))]
    output = Buffer("c", np.zeros(M * N * 4, np.uint8), initialized=False)
    sizes = [Scalar(name, value.to_bytes(4, "little")) for name, value in (("m", M), ("n", N), ("k", K))]
    # Two pointers to scratch memory end the parameters of every kernel; this one uses none.
    scratch = [Scalar(name, bytes(8)) for name in ("global_scratch", "profile_scratch")]
    artifact = Artifact("product.py", "sm_90a", compiled.asm["ptx"], b"", {}, {}, "")
    arguments = (*inputs, output, *sizes, *scratch)
    outcome = Emulator().run(
        Request(artifact, "product", (1, 1, 1), (32 * warps, 1, 1), compiled.metadata.shared, arguments)
    )
    assert outcome.status == "completed" and not outcome.events, (outcome.status, outcome.events)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(outcome.buffers["c"].view(np.float32).reshape(M, N), wanted)
