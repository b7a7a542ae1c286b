# Leaky ReLU with slope 0.01: clean
import triton
import triton.language as tl


@triton.jit
def leaky_relu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside).to(tl.float32)
    r = tl.where(v > 0, v, 0.01 * v)
    tl.store(y + i, r, mask=inside)
