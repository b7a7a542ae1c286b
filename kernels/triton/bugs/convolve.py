# Convolution with three taps: clean
import triton
import triton.language as tl


@triton.jit
def convolve(x, w, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for tap in tl.static_range(3):
        at = i + tap - 1
        v = tl.load(x + at, mask=(at >= 0) & (at < n), other=0.0)
        total += v * tl.load(w + tap)
    tl.store(y + i, total, mask=i < n)
