# Histogram with atomics: clean
import triton
import triton.language as tl


@triton.jit
def histogram(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    bin = tl.load(x + i, mask=inside, other=0)
    tl.atomic_add(y + bin, 1, mask=inside)
