# Histogram with loads and stores
import triton
import triton.language as tl


@triton.jit
def histogram(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    bin = tl.load(x + i, mask=inside, other=0)
    seen = tl.load(y + bin, mask=inside)  # expect: memory/global-race
    tl.store(y + bin, seen + 1, mask=inside)  # expect: memory/global-race | numeric/tolerance-exceeded
