# Offset that overflows 32 bits
import triton
import triton.language as tl


@triton.jit
def ring(x, step, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    position = tl.load(step + i, mask=inside, other=0) * 1000003 % n
    tl.store(y + i, tl.load(x + position, mask=inside), mask=inside)  # expect: memory/out-of-bounds
