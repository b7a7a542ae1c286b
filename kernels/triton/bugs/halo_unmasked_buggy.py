# Mask of the centre for a load of the neighbour
import triton
import triton.language as tl


@triton.jit
def shift(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + 1, mask=i < n, other=0.0)  # expect: memory/out-of-bounds
    tl.store(y + i, v, mask=i < n)
