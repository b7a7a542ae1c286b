# Load without a mask
import triton
import triton.language as tl


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    left = tl.load(x + i, mask=inside)
    right = tl.load(y + i)  # expect: memory/out-of-bounds
    tl.store(z + i, left + right, mask=inside)
