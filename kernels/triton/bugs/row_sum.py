# Sum of each row: clean
import triton
import triton.language as tl


@triton.jit
def row_sum(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + row * cols + c, mask=c < cols, other=0.0), axis=0)
    tl.store(y + row, total)
