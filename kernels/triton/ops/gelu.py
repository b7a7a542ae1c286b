# GELU with tanh: clean
import triton
import triton.language as tl


@triton.jit
def gelu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside).to(tl.float32)
    inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    r = v * tl.sigmoid(2.0 * inner)
    tl.store(y + i, r, mask=inside)
