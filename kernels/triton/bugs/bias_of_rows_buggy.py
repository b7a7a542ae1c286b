# Bias broadcast along the wrong axis
import triton
import triton.language as tl


@triton.jit
def bias(x, b, y, rows, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=inside)
    add = tl.load(b + c, mask=c < cols)
    tl.store(y + r[:, None] * cols + c[None, :], v + add[:, None], mask=inside)  # expect: numeric/tolerance-exceeded
