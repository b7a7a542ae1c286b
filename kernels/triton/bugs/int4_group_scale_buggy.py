# Product with packed int4: one scale per block of 32 rows
import triton
import triton.language as tl


@triton.jit
def int4_matrix(x, packed, scales, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        r = start + tl.arange(0, BK)
        inside = (r[:, None] < k) & (j[None, :] < n)
        v = tl.load(x + i[:, None] * k + r[None, :], mask=(i[:, None] < m) & (r[None, :] < k), other=0.0)
        word = tl.load(packed + (r[:, None] // 8) * n + j[None, :], mask=inside, other=0)
        level = ((word >> (4 * (r[:, None] % 8))) & 15) - 8
        scale = tl.load(scales + (r[:, None] // 32 * 2) * n + j[None, :], mask=inside, other=0.0)
        acc = tl.dot(v, (level * scale).to(v.dtype), acc)
    inside = (i[:, None] < m) & (j[None, :] < n)
    rounded = acc.to(y.dtype.element_ty)
    tl.store(y + i[:, None] * n + j[None, :], rounded, mask=inside)  # expect: numeric/tolerance-exceeded
