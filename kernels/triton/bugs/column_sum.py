# Sum of each column: clean
import triton
import triton.language as tl


@triton.jit
def column_sum(x, y, rows, cols, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, rows, BLOCK):
        inside = (start + r < rows)[:, None] & (c < cols)[None, :]
        tile = tl.load(x + (start + r)[:, None] * cols + c[None, :], mask=inside, other=0.0)
        total += tl.sum(tile, axis=0)
    tl.store(y + c, total, mask=c < cols)
