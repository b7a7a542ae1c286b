# Elements shifted by one: clean
import triton
import triton.language as tl


@triton.jit
def shift(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(y + i, v, mask=i < n)
