# Padding lanes without other= reach no result: clean
import triton
import triton.language as tl


@triton.jit
def undefined_padding(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    total = tl.sum(tl.where(i < n, 1.0 / (1.0 + v * v), 0.0), axis=0)
    tl.store(y + tl.program_id(0), total)
