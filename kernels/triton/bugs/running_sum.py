# Running sum of each row, in chunks: clean
import triton
import triton.language as tl


@triton.jit
def running_sum(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
        tl.store(y + row * cols + c, tl.cumsum(v, axis=0) + carry, mask=c < cols)
        carry += tl.sum(v, axis=0)
