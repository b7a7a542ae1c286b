"""The same kernels for four architectures: equal on integers, near their fp64 reference otherwise, no findings.

Triton multiplies with `mma.sync` on sm_80 and sm_120, with `wgmma` on sm_90 and with `tcgen05` on sm_100, and loads through descriptors by pointers
on sm_80 and by the tensor memory accelerator on the others: each architecture is the others' reference.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import gpuemu.triton

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
M, N, K = 96, 80, 128
BM, BN, BK = 64, 64, 32


@triton.jit
def by_pointers(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, inner = (
        tl.program_id(0) * BM + tl.arange(0, BM),
        tl.program_id(1) * BN + tl.arange(0, BN),
        tl.arange(0, BK),
    )
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + (first + inner)[None, :], mask=rows[:, None] < m, other=0.0)
        right = tl.load(b + (first + inner)[:, None] * n + columns[None, :], mask=columns[None, :] < n, other=0.0)
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * n + columns[None, :], sums, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def by_host_descriptors(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, k, BK):
        sums = tl.dot(a.load([row, first]), b.load([first, column]), sums)
    c.store([row, column], sums)


@triton.jit
def by_device_descriptors(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [BK, BN])
    result = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, k, BK):
        sums = tl.dot(left.load([row, first]), right.load([first, column]), sums)
    result.store([row, column], sums)


@triton.jit
def attention(q, k, v, out, keys, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows, columns, width = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + width[None, :])
    largest = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for first in range(0, keys, BN):
        key = tl.load(k + (first + columns)[None, :] * D + width[:, None])
        value = tl.load(v + (first + columns)[:, None] * D + width[None, :])
        scores = tl.dot(query, key) * scale
        now = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - now[:, None])
        factor = tl.exp(largest - now)
        total = total * factor + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tl.float16), value, sums * factor[:, None])
        largest = now
    tl.store(out + rows[:, None] * D + width[None, :], sums / total[:, None])


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    value = tl.load(x + row + i, mask=i < columns, other=float("-inf"))
    above = tl.exp(value - tl.max(value, 0))
    tl.store(y + row + i, above / tl.sum(above, 0), mask=i < columns)


def results(launch):
    """Return what a launch leaves in its result, by architecture."""
    found = {}
    for arch in ARCHITECTURES:
        with gpuemu.triton.emulated(on_finding="collect", arch=arch) as session:
            found[arch] = launch()
        assert session.findings == (), (arch, session.findings)
    return found


def factors(kind):
    generator = torch.Generator().manual_seed(1)
    if kind == "integers":
        return [torch.randint(-4, 5, shape, generator=generator).half() for shape in ((M, K), (K, N))]
    return [torch.randn(shape, generator=generator).half() for shape in ((M, K), (K, N))]


def product(form, a, b, **options):
    c = torch.full((M, N), float("nan"))
    grid, blocks = (triton.cdiv(M, BM), triton.cdiv(N, BN)), (BM, BN, BK)
    if form == "host":
        described = TensorDescriptor.from_tensor
        by_host_descriptors[grid](
            described(a, [BM, BK]), described(b, [BK, BN]), described(c, [BM, BN]), K, *blocks, **options
        )
    else:
        kernel = by_pointers if form == "pointers" else by_device_descriptors
        kernel[grid](a, b, c, M, N, K, *blocks, **options)
    return c


@pytest.mark.parametrize("form", ["pointers", "host", "device"])
@pytest.mark.parametrize(("stages", "warps"), [(1, 4), (3, 4), (2, 8)])
def test_products(form, stages, warps):
    a, b = factors("integers")
    exact = a.double() @ b.double()
    for arch, found in results(lambda: product(form, a, b, num_stages=stages, num_warps=warps)).items():
        assert torch.equal(found.double(), exact), arch
    a, b = factors("floats")
    exact, sizes = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    for arch, found in results(lambda: product(form, a, b, num_stages=stages, num_warps=warps)).items():
        # Sums of K products in fp32, in any order.
        assert ((found.double() - exact).abs() <= K * 2.0**-24 * sizes).all(), arch


@pytest.mark.parametrize(("stages", "warps"), [(1, 4), (2, 8)])
def test_attention(stages, warps):
    queries, keys, width, scale = 128, 192, 64, 0.125
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randint(-2, 3, (rows, width), generator=generator).half() for rows in (queries, keys, keys))

    def launch():
        out = torch.full((queries, width), float("nan"))
        attention[(queries // 64,)](q, k, v, out, keys, scale, 64, 64, width, num_stages=stages, num_warps=warps)
        return out

    weights = torch.softmax(q.double() @ k.double().T * scale, -1)
    exact, sizes = weights @ v.double(), weights @ v.double().abs()
    for arch, found in results(launch).items():
        # The weights are rounded to fp16.
        assert ((found.double() - exact).abs() <= 2.0**-10 * (sizes + 1)).all(), arch


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_softmax(warps):
    x = torch.randn((5, 700), generator=torch.Generator().manual_seed(3))

    def launch():
        y = torch.full_like(x, float("nan"))
        softmax[(5,)](x, y, 700, 1024, num_warps=warps)
        return y

    exact = torch.softmax(x.double(), -1)
    for arch, found in results(launch).items():
        assert ((found.double() - exact).abs() <= 2.0**-20 * exact).all(), arch


def test_a_map_that_the_driver_refuses():
    # Rows of 41 * 2 bytes: not a multiple of 16. Triton itself does not test strides before sm_90.
    a, b = torch.zeros((M, 41)).half(), torch.zeros((40, N)).half()
    c = torch.zeros((M, N))
    with gpuemu.triton.emulated(arch="sm_90"), pytest.raises((RuntimeError, AssertionError), match="16"):
        described = TensorDescriptor.from_tensor
        by_host_descriptors[(2, 2)](
            described(a, [BM, BK]), described(b, [BK, BN]), described(c, [BM, BN]), 32, BM, BN, BK
        )


def test_a_map_of_more_than_the_tensor_has():
    a, b = factors("integers")
    c = torch.zeros((M, N))
    # The bytes that do not arrive are waited for until the limit.
    with gpuemu.triton.emulated(on_finding="collect", arch="sm_90", seconds=5) as session:
        # The driver does not know how large the tensor is.
        longer = TensorDescriptor(b, [K + 32, N], [N, 1], [BK, BN])
        described = TensorDescriptor.from_tensor
        by_host_descriptors[(1, 1)](described(a, [BM, BK]), longer, described(c, [BM, BN]), K + 32, BM, BN, BK)
    found = [finding.message for finding in session.findings if finding.rule == "memory/out-of-bounds"]
    assert found == ["4096 of the 4096 bytes of the bulk copy are outside of global memory"]
