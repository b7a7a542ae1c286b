# Program ids of the wrong axes. expect-somewhere: numeric/unwritten-output
import triton
import triton.language as tl


@triton.jit
def transpose(x, y, rows, cols, stride_r, stride_c, BLOCK: tl.constexpr):
    r = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (r < rows)[:, None] & (c < cols)[None, :]
    v = tl.load(x + r[:, None] * stride_r + c[None, :] * stride_c, mask=inside)
    tl.store(y + c[None, :] * rows + r[:, None], v, mask=inside)
