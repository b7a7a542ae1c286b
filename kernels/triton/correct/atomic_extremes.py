# Maximum and minimum by atomics: clean
import triton
import triton.language as tl


@triton.jit
def atomic_extremes(x, low, high, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_max(high, tl.max(tl.where(i < n, v, -2147483648), axis=0), sem="relaxed")
    tl.atomic_min(low, tl.min(tl.where(i < n, v, 2147483647), axis=0), sem="relaxed")
