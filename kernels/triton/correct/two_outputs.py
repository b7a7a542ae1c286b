# Only one program stores the second output: clean
import triton
import triton.language as tl


@triton.jit
def two_outputs(x, y, first, n, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    i = t * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, v * 2.0, mask=i < n)
    tl.store(first + tl.arange(0, 1), tl.full([1], 0.0, tl.float32) + tl.load(x), mask=t == 0)
