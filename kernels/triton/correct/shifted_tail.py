# The last block is moved back, so that two programs store equal values: clean
import triton
import triton.language as tl


@triton.jit
def shifted_tail(x, y, n, BLOCK: tl.constexpr):
    start = min(tl.program_id(0) * BLOCK, n - BLOCK)
    i = start + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * 2.0)
