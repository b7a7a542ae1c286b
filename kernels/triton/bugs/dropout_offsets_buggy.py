# Dropout that repeats its mask in each program
import triton
import triton.language as tl


@triton.jit
def dropout(x, y, n, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    keep = tl.rand(seed, tl.arange(0, BLOCK)) > 0.25
    tl.store(y + i, tl.where(keep, v / 0.75, 0.0), mask=i < n)  # expect: numeric/tolerance-exceeded
