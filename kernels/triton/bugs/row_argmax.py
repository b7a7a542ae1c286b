# Index of the first maximum of each row, in chunks: clean
import triton
import triton.language as tl


@triton.jit
def row_argmax(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = -float("inf")
    index = 0
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + c, mask=c < cols, other=-float("inf"))
        largest = tl.max(v, axis=0)
        index = tl.where(largest > best, tl.argmax(v, axis=0) + start, index)
        best = tl.maximum(largest, best)
    tl.store(y + row, index)
