# Mean over the padded length
import triton
import triton.language as tl


@triton.jit
def row_mean(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.store(y + row, tl.sum(v, axis=0) / BLOCK)  # expect: numeric/tolerance-exceeded
