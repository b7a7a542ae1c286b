# Mask with <= for <
import triton
import triton.language as tl


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n
    left = tl.load(x + i, mask=inside)  # expect: memory/out-of-bounds
    right = tl.load(y + i, mask=inside)
    tl.store(z + i, left + right, mask=inside)
