# A tile that reaches into the next row, whose lanes are replaced: clean
import triton
import triton.language as tl


@triton.jit
def next_row(x, y, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    at = row * cols + c
    v = tl.load(x + at, mask=at < rows * cols, other=0.0)
    tl.store(y + row, tl.sum(tl.where(c < cols, v, 0.0), axis=0))
