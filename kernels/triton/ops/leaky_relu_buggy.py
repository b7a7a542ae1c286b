# Leaky ReLU with slope 0.1 for 0.01
import triton
import triton.language as tl


@triton.jit
def leaky_relu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside).to(tl.float32)
    r = tl.where(v > 0, v, 0.1 * v)
    tl.store(y + i, r, mask=inside)  # expect: numeric/tolerance-exceeded
