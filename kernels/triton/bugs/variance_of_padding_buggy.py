# Variance that includes padding lanes
import triton
import triton.language as tl


@triton.jit
def standardize(x, y, rows, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0) * 2 + tl.arange(0, 2)
    c = tl.arange(0, BLOCK)
    inside = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=inside, other=0.0)
    mean = tl.sum(v, axis=1) / cols
    d = v - mean[:, None]
    scale = tl.rsqrt(tl.sum(d * d, axis=1) / cols + 1e-5)
    tl.store(y + r[:, None] * cols + c[None, :], d * scale[:, None], mask=inside)  # expect: numeric/tolerance-exceeded
