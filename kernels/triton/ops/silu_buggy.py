# SiLU that is only the sigmoid
import triton
import triton.language as tl


@triton.jit
def silu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside).to(tl.float32)
    r = tl.sigmoid(v)
    tl.store(y + i, r, mask=inside)  # expect: numeric/tolerance-exceeded
