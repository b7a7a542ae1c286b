"""Tensor descriptors that a Triton kernel makes, for sm_90 and sm_120: right on integers, and without findings."""

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

M, N, K = 96, 80, 128


@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [BK, BN])
    result = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for inner in range(0, k, BK):
        sums = tl.dot(left.load([row, inner]), right.load([inner, column]), sums)
    result.store([row, column], sums)


@pytest.mark.parametrize("target", [90, 120])
@pytest.mark.parametrize("stages", [1, 3])
def test_products_by_descriptors(target, stages):
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"}
    blocks = {"BM": 64, "BN": 64, "BK": 32}
    source = ASTSource(
        product,
        signature={**types, **dict.fromkeys(blocks, "constexpr")},
        constexprs=blocks,
        attrs={(index,): [["tt.divisibility", 16]] for index in range(6)},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options={"num_stages": stages})
    assert "tensormap.replace" in compiled.asm["ptx"] and "tensormap.cp_fenceproxy" in compiled.asm["ptx"]
    random = np.random.default_rng(stages)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    inputs = [Buffer(name, one.view(np.uint8).reshape(-1), element_size=2) for name, one in (("a", a), ("b", b))]
    output = Buffer("c", np.zeros(M * N * 4, np.uint8), initialized=False)
    sizes = [Scalar(name, value.to_bytes(4, "little")) for name, value in (("m", M), ("n", N), ("k", K))]
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64), 1)
    # Triton gives each program its part of the scratch memory, in which it makes the descriptors.
    size = compiled.metadata.global_scratch_size * grid[0] * grid[1]
    scratch = Buffer("global_scratch", np.zeros(size, np.uint8), initialized=False)
    arguments = (*inputs, output, *sizes, scratch, Scalar("profile_scratch", bytes(8)))
    artifact = Artifact("product.py", f"sm_{target}a", compiled.asm["ptx"], b"", {}, {}, "")
    outcome = Emulator().run(Request(artifact, "product", grid, (128, 1, 1), compiled.metadata.shared, arguments))
    assert outcome.status == "completed" and not outcome.events, (outcome.status, outcome.events)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(outcome.buffers["c"].view(np.float32).reshape(M, N), wanted)
